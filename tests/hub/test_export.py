"""An exported folder gives the same logits in plain transformers, with no adlm in sight."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import adlm
from adlm.cli import main
from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.hub.export import export
from adlm.models import checkpoint
from adlm.models.build import build_model
from adlm.nn.context import Context
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

pytest.importorskip("transformers")
BASE = ModelConfig(width=16, blocks=2, heads=2)
SHAPES = {
    "mdlm": [
        replace(BASE, time=8),
        replace(BASE, conv=3, tied=True, qk_norm=True),
        replace(BASE, conv=3, shift=True),
    ],
    "ar": [replace(BASE, conv=3), replace(BASE, tied=True, bias=True, positions="learned")],
    "adlm": [
        replace(BASE, anchor_blocks=1, time=4),
        replace(BASE, anchor_blocks=1, bridge="embedding", residual=True, shared=True, conv=3),
        replace(BASE, anchor_blocks=2, bridge="softmax"),
        replace(BASE, anchor_blocks=1, residual=True, shift=True, positions="learned"),
    ],
    "a2r": [replace(BASE, anchor_blocks=1), replace(BASE, anchor_blocks=1, bridge="hidden")],
    "bd3lm": [replace(BASE, time=4), replace(BASE, conv=5)],
    "sedd": [replace(BASE, time=4)],
}
PROCESSES = {"sedd": ProcessConfig(masking="bernoulli", conditioned=True)}
CASES = {f"{kind}-{i}": (kind, m) for kind, all_ in SHAPES.items() for i, m in enumerate(all_)}
PLAIN = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "adlm":
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Block())
import torch
from pathlib import Path
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

for home in sorted(Path(sys.argv[1]).iterdir()):
    auto = AutoModelForCausalLM if home.name[:2] in ("ar", "a2") else AutoModelForMaskedLM
    x = load_file(home / "x.safetensors")
    for source, name in (home / "hub", "first"), (home / "again", "second"):
        model, found = auto.from_pretrained(
            source, trust_remote_code=True, output_loading_info=True
        )
        assert not found["missing_keys"] and not found["unexpected_keys"], found
        model.eval()
        with torch.no_grad():
            out = {"logits": model(x["x"]).logits}
            out["padded"] = model(x["x"], attention_mask=x["real"]).logits
            if "sigma" in x:
                out["noised"] = model(x["x"], sigma=x["sigma"]).logits
        save_file(out, home / f"{name}.safetensors")
        model.save_pretrained(home / "again")
    loss = model(x["x"], labels=x["x"]).loss
    loss.backward()
    words = AutoTokenizer.from_pretrained(home / "hub", trust_remote_code=True)
    given = words("the " + words.mask_token + " law", return_tensors="pt")
    assert given.input_ids[0].tolist().count(words.mask_token_id) == 1, given
    if home.name.startswith("ar"):
        written = model.generate(x["x"][:, :4], max_new_tokens=6, do_sample=True)
        assert written.shape == (2, 10) and (written != words.mask_token_id).all()
assert "adlm" not in sys.modules
print("fine")
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Folders of all kinds, and what plain transformers makes of them in a process of its own."""
    home, vocab = tmp_path_factory.mktemp("exported"), byte_vocab()
    torch.manual_seed(0)
    for name, (kind, shape) in CASES.items():
        process = PROCESSES.get(kind, ProcessConfig())
        config = Config(kind, DataConfig(tokenizer="byte", length=16), shape, process)
        model = build_model(config, vocab.size)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.3 * torch.randn_like(weight))
        with checkpoint.whole(home / "own" / name) as work:
            checkpoint.write(work, config, vocab, model.state_dict())
        export(checkpoint.load(home / "own" / name), home / "all" / name / "hub")
        given = {"x": torch.randint(0, 256, (2, 12)), "real": torch.ones(2, 12, dtype=torch.long)}
        given["real"][1, :5] = 0
        given |= {"sigma": torch.tensor([0.3, 2.0])} if shape.time else {}
        save_file(given, home / "all" / name / "x.safetensors")
    env = {**os.environ, "HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    words = [sys.executable, "-c", PLAIN, str(home / "all")]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout.endswith("fine\n"), done.stderr[-3000:]
    return home


@pytest.mark.parametrize("name", CASES)
def test_plain_transformers_gives_the_same_logits(name, exported):
    home = exported / "all" / name
    given, model = load_file(home / "x.safetensors"), adlm.load(exported / "own" / name).network
    real = given["real"].bool()
    with torch.no_grad():
        wanted = model.logits(given["x"])
        padded = model.logits(given["x"], Context(model.own_layout(torch.where(real, 0, -1))))
        noised = model.logits(given["x"], Context(sigma=given.get("sigma")))
    assert wanted.std() > 0.5
    for found in (load_file(home / f"{n}.safetensors") for n in ("first", "second")):
        torch.testing.assert_close(found["logits"], wanted, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found["padded"][real], padded[real], rtol=1e-4, atol=1e-4)
        if "sigma" in given:
            torch.testing.assert_close(found["noised"], noised, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_what_transformers_saves_is_imported_again(name, exported, tmp_path):
    home = exported / "all" / name
    source = exported / "own" / name
    words = ["--tokenizer", str(home / "hub" / "tokenizer.json")]
    assert main(["import", str(home / "again"), "--out", str(tmp_path / "out"), *words]) == 0
    a, b = checkpoint.load(source).weights(), checkpoint.load(tmp_path / "out").weights()
    assert a.keys() == b.keys()
    assert all(torch.equal(t, b[k]) for k, t in a.items())


def test_the_folder_is_a_checkpoint_of_adlm_too(exported):
    for name in CASES:
        there, here = (adlm.load(exported / p / name / q) for p, q in (("all", "hub"), ("own", "")))
        assert there.config == here.config
        assert (there.nll(["the law"], draws=2) == here.nll(["the law"], draws=2)).all()


def test_the_card_has_the_run_s_own_figures(tmp_path, capsys):
    run = tmp_path / "run"
    train(make_config(small_corpus(tmp_path), steps=4), run)
    assert main(["export", str(run), "--to", str(tmp_path / "a")]) == 0
    card = (tmp_path / "a" / "README.md").read_text()
    assert re.search(r"corpus\.txt \(valid\) \| ≤ \d+\.\d+ ± \d+", card), card
    assert main(["eval", "likelihood", str(run), "--split", "test"]) == 0
    assert main(["export", str(run), "--to", str(tmp_path / "b")]) == 0
    card = (tmp_path / "b" / "README.md").read_text()
    result = json.loads((run / "eval" / "likelihood-corpus.txt-test.json").read_text())
    assert f"≤ {result['ppl']:.2f} ± {result['se_ppl']:.2f}" in card
    assert f"{result['parameters']:,}" in card
    assert "256 in 4 steps, seed 0" in card
    codes = re.findall(r"^```python\n(.*?)^```$", card, re.M | re.S)
    assert len(codes) == 2
    for code in codes:  # what is to be copied is Python
        compile(code, "card", "exec")
    for file in (tmp_path / "b").iterdir():  # whose folders these were is nobody's business
        assert str(tmp_path).encode() not in file.read_bytes()
    train(make_config(small_corpus(tmp_path), steps=6), run, resume=True)
    assert main(["export", str(run), "--to", str(tmp_path / "c")]) == 0
    assert f"{result['ppl']:.2f}" not in (tmp_path / "c" / "README.md").read_text()


def test_a_folder_that_is_there_is_left_alone(exported, tmp_path):
    (tmp_path / "mine").write_text("dear")
    with pytest.raises(UserError, match="is there already"):
        export(checkpoint.load(exported / "own" / "ar-0"), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
