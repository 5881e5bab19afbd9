"""`adlm import`: a checkpoint like any other, or one sentence and nothing written."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

import adlm
from adlm.cli import main
from adlm.models import checkpoint
from adlm.models.foreign.base import find_format
from adlm.models.foreign.source import open_source
from tests.models.foreign.golden import GOLDEN, expected, folder_of, given, here

pytestmark = here


@pytest.fixture
def folder(tmp_path):
    """MDLM's folder with a tokenizer of a hundred words."""
    home = folder_of("mdlm", tmp_path)
    ids = {f"w{i}": i for i in range(98)} | {"<|endoftext|>": 98, "<|mask|>": 99}
    Tokenizer(models.WordLevel(ids, unk_token="w0")).save(str(home / "tokenizer.json"))
    return home


def importing(source, out, *words: str) -> int:
    return main(["import", str(source), "--out", str(out), *words])


def test_what_is_imported_is_a_model_like_any_other(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert importing(folder, out) == 0
    assert "mdlm: " in capsys.readouterr().out
    model, data = adlm.load(out), expected("mdlm")
    with torch.no_grad():
        found = model.network.logits(data["z"])
    assert (found - data["logits_f32"]).abs().max() < 1e-4
    assert model.generate(n=1, steps=4, seed=1)
    assert model.nll(["w1 w2"])[0] > 0
    assert main(["eval", "likelihood", str(out), "--data", __file__, "--limit", "2"]) == 0
    assert main(["infill", str(out), "w1 [MASK] w2", "--steps", "2"]) == 0


# tokens with the mask, which is last, and EOS
SPECIAL = {"bd3lm": (100, 98), "sedd": (100, 98), "sedd-uniform": (100, 98), "gidd": (64, 62)}


def test_a_uniform_graph_has_as_many_tokens_as_its_tokenizer(tmp_path, capsys):
    home = folder_of("sedd-uniform", tmp_path)
    ids = {f"w{i}": i for i in range(97)} | {"<|endoftext|>": 97}
    Tokenizer(models.WordLevel(ids, unk_token="w0")).save(str(home / "tokenizer.json"))
    assert importing(home, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "has 99 tokens, but its tokenizer (tokenizer.json) has 99 with the mask" in said
    change_config(home, noise={"type": "loglinear"})
    assert importing(home, tmp_path / "out") == 2
    assert "SEDD with the graph uniform and loglinear noise" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", SPECIAL)
def test_every_published_objective_scores_and_writes(name, tmp_path):
    home, (size, eos) = folder_of(name, tmp_path), SPECIAL[name]
    ids = {f"w{i}": i for i in range(eos)} | {"<|endoftext|>": eos, "<|mask|>": size - 1}
    Tokenizer(models.WordLevel(ids, unk_token="w0")).save(str(home / "tokenizer.json"))
    assert importing(home, tmp_path / "out") == 0
    model = adlm.load(tmp_path / "out")
    assert model.config.objective == name.removesuffix("-uniform")
    nats = model.nll(["w1 w2 w3"], draws=2)[0]
    assert 0 < nats < 1000
    assert model.generate(n=1, steps=4, seed=1)


def test_the_averaged_weights_are_taken_unless_raw_is_asked_for(tmp_path):
    for words, raw in ((), False), (("--raw",), True):
        out = tmp_path / f"out-{raw}"
        assert importing(GOLDEN / "adlm" / "adlm.ckpt", out, *words) == 0
        found = checkpoint.load(out).weights()
        wanted = given("adlm/adlm.ckpt", raw, exact=False).model.state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[k], wanted[k]) for k in wanted)


def lightning(path, extra: dict | None = None, **settings) -> None:
    """A training checkpoint of MDLM's code: raw weights are zero, the averaged ones published."""
    tensors = load_file(GOLDEN / "mdlm" / "model.safetensors")
    order = sorted(tensors, key=lambda k: ("rotary" in k, k))
    shadow = [tensors[k] for k in order if "rotary" not in k]
    state = {k: torch.zeros_like(tensors[k]) for k in order} | (extra or {})
    saved = {"state_dict": state, "ema": {"shadow_params": shadow, "decay": 0.9999}}
    torch.save({**saved, "hyper_parameters": {"config": settings}}, path)


def test_mdlms_training_checkpoint_is_its_hub_folder(folder, tmp_path):
    shape = {"n_heads": 4, "length": 32, "dropout": 0.1}
    lightning(tmp_path / "x.ckpt", model=shape, parameterization="subs")
    words = ["--tokenizer", str(folder / "tokenizer.json")]
    assert importing(tmp_path / "x.ckpt", tmp_path / "a", *words) == 0
    assert importing(folder, tmp_path / "b") == 0
    a, b = (checkpoint.load(tmp_path / n) for n in "ab")
    assert a.config.model == b.config.model
    assert a.config.process == b.config.process
    assert all(torch.equal(t, b.weights()[k]) for k, t in a.weights().items())


@pytest.mark.parametrize(
    ("extra", "settings", "says"),
    [
        ({}, {"parameterization": "d3pm"}, "was trained as d3pm"),
        ({}, {"algo": {"name": "sedd"}}, "of no format"),
        ({"head.weight": torch.ones(1)}, {}, r"\d+ averaged tensors for"),
    ],
)
def test_other_training_checkpoints_are_one_sentence(extra, settings, says, tmp_path, capsys):
    lightning(tmp_path / "x.ckpt", extra, **settings)
    assert importing(tmp_path / "x.ckpt", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert re.search(says, said), said


def test_block_diffusion_is_not_taken_for_mdlm(tmp_path):
    buffers = {f"sampling_eps_{end}": torch.ones(()) for end in ("min", "max")}
    lightning(tmp_path / "x.ckpt", buffers)
    source = open_source(str(tmp_path / "x.ckpt"))
    assert type(find_format(source)).__name__ == "Bd3lm"


@pytest.mark.parametrize("name", ["mdlm", "adlm"])
def test_import_export_import_is_the_identity(name, folder, tmp_path):
    first, second, third = (tmp_path / n for n in ("first", "second", "third"))
    source = folder if name == "mdlm" else GOLDEN / "adlm" / "adlm.ckpt"
    assert importing(source, first) == 0
    assert main(["export", str(first), "--to", str(second)]) == 0
    assert importing(second, third) == 0
    a, b = checkpoint.load(first), checkpoint.load(third)
    assert a.config == b.config
    assert a.vocab.hash == b.vocab.hash
    assert a.weights().keys() == b.weights().keys()
    assert all(torch.equal(t, b.weights()[k]) for k, t in a.weights().items())


def change_tensors(home, change) -> None:
    tensors = load_file(home / "model.safetensors")
    change(tensors)
    save_file(tensors, home / "model.safetensors")


def change_config(home, **values) -> None:
    old = json.loads((home / "config.json").read_text())
    (home / "config.json").write_text(json.dumps({**old, **values}))


def pickled(home) -> None:
    torch.save(load_file(home / "model.safetensors"), home / "pytorch_model.bin")
    (home / "model.safetensors").unlink()


def cut(home) -> None:
    path = home / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


BIAS = "backbone.blocks.0.mlp.2.bias"
BAD = {
    "pickled weights only": (pickled, r"no model\.safetensors; pytorch_model\.bin is pickled"),
    "truncated": (cut, "not a safetensors file, or is truncated"),
    "no config": (
        lambda h: (h / "config.json").unlink(),
        "config.json cannot be read: No such file",
    ),
    "config is a list": (lambda h: (h / "config.json").write_text("[]"), "must hold an object"),
    "another kind": (lambda h: change_config(h, model_type="llama"), "of no format.*llama"),
    "an extra tensor": (
        lambda h: change_tensors(h, lambda t: t.update(lora=torch.ones(1))),
        "the tensor lora has no place",
    ),
    "a missing tensor": (
        lambda h: change_tensors(h, lambda t: t.pop("backbone.blocks.1.attn_out.weight")),
        "lacks the tensor backbone.blocks.1.attn_out.weight",
    ),
    "another shape": (
        lambda h: change_tensors(h, lambda t: t.update({BIAS: torch.ones(100, 64)})),
        r"backbone.blocks.0.mlp.2.bias has shape \(100, 64\) instead of \(64,\)",
    ),
    "another width": (lambda h: change_config(h, hidden_dim=128), "hidden_dim is 128, but"),
    "another depth": (lambda h: change_config(h, n_blocks=3), "n_blocks is 3, but"),
    "heads that do not fit": (lambda h: change_config(h, n_heads=5), "model.heads must be"),
    "no tokenizer": (lambda h: (h / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "a damaged tokenizer": (
        lambda h: (h / "tokenizer.json").write_text("{"),
        "tokenizer.json is damaged: it is not JSON",
    ),
    "another tokenizer": (
        lambda h: Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(
            str(h / "tokenizer.json")
        ),
        "has 100 tokens, but its tokenizer",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_written(name, folder, tmp_path, capsys):
    change, says = BAD[name]
    change(folder)
    out = tmp_path / "out"
    assert importing(folder, out) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert re.search(says, said), said
    assert not out.exists()
    assert {p.name for p in tmp_path.iterdir()} <= {"mdlm", "cache0"}


def test_the_tensor_decides_on_cond_dim(folder, tmp_path):
    change_config(folder, cond_dim=128)
    assert importing(folder, tmp_path / "out") == 0
    assert checkpoint.load(tmp_path / "out").config.model.time == 32


def test_wrappers_around_names_are_dropped(folder, tmp_path):
    change_tensors(
        folder, lambda t: [t.update({f"module._orig_mod.{k}": t.pop(k)}) for k in list(t)]
    )
    assert importing(folder, tmp_path / "out") == 0


def test_a_folder_that_is_there_is_left_alone(folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("dear")
    assert importing(folder, tmp_path / "out") == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine").read_text() == "dear"


def test_an_exported_checkpoint_cannot_be_resumed(folder, tmp_path):
    assert importing(folder, tmp_path / "out") == 0
    with pytest.raises(adlm.errors.UserError, match="exported for use only"):
        checkpoint.load(tmp_path / "out").training()


def test_a_damaged_export_is_not_imported(folder, tmp_path, capsys):
    assert importing(folder, tmp_path / "a") == 0
    assert main(["export", str(tmp_path / "a"), "--to", str(tmp_path / "b")]) == 0
    data = bytearray((tmp_path / "b" / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "b" / "model.safetensors").write_bytes(data)
    assert importing(tmp_path / "b", tmp_path / "c") == 2
    assert "not the file that was saved" in capsys.readouterr().err
