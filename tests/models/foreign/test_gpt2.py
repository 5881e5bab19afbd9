"""GPT-2's weights in our trunk give GPT-2's logits."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

import adlm
from adlm.errors import UserError
from adlm.models.adapt import based, open_base
from adlm.models.build import build_model
from adlm.models.foreign.load import load_foreign
from adlm.models.widen import widen
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.recipes import recipe
from adlm.train.run import train
from tests.conftest import SHARED

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="GPT-2's tokenizer files are not here")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A randomly initialised GPT-2 of the `transformers` library, and its folder."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = transformers.GPT2Config(n_embd=48, n_layer=3, n_head=4, n_positions=64)
    model = transformers.GPT2LMHeadModel(shape).eval()
    with torch.no_grad():
        for weight in model.parameters():  # biases and norms too
            weight.add_(0.05 * torch.randn_like(weight))
    folder = tmp_path_factory.mktemp("gpt2")
    model.save_pretrained(folder)
    return model, folder


def test_logits_are_those_of_transformers(gpt2):
    theirs, folder = gpt2
    found = load_foreign(str(folder), data_dir=str(SHARED))
    config, vocab, ours = found.config, found.vocab, found.model
    x = torch.randint(0, 50257, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted, found = theirs(x).logits, ours.logits(x)[..., :50257]
        cache = ours.new_cache()
        parts = [
            ours(ours.embed(x[:, s]), Context(Layout(True), cache=cache)).denoiser for s in CUTS
        ]
        stepwise = ours.head(torch.cat(parts, 1))[..., :50257]
    assert (found - wanted).abs().max() < 1e-4
    assert (stepwise - wanted).abs().max() < 1e-4
    assert wanted.std() > 0.1
    assert (config.data.length, vocab.size, vocab.eos) == (64, 50258, 50256)


CUTS = (slice(0, 20), slice(20, 21), slice(21, 40))


def test_left_padding_does_not_move_learned_positions(gpt2):
    _, folder = gpt2
    ours = load_foreign(str(folder), data_dir=str(SHARED)).model
    x = torch.randint(0, 50257, (1, 12), generator=torch.Generator().manual_seed(2))
    padded = torch.cat((torch.zeros(1, 5, dtype=torch.long), x), dim=1)
    segment = torch.tensor([[-1] * 5 + [0] * 12])
    with torch.no_grad():
        alone = ours(x).denoiser
        moved = ours(padded, Context(Layout(True, segment))).denoiser[:, 5:]
    torch.testing.assert_close(alone, moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["laptop-ar", "laptop-a2r"])
@pytest.mark.parametrize("bridge", ["embedding", "linear"])
def test_new_tokens_leave_the_old_ones_alone(name, bridge):
    config = recipe(name)
    if config.model.anchor_blocks:
        config = replace(config, model=replace(config.model, bridge=bridge, residual=False))
    torch.manual_seed(0)
    small = build_model(config, 20).eval()
    wide = widen(small, config, 23).eval()
    assert wide.embed.weight.shape[0] == 23
    assert torch.equal(wide.embed.weight[:20], small.embed.weight)
    torch.testing.assert_close(wide.embed.weight[22], small.embed.weight.mean(0))
    if not config.model.anchor_blocks:
        x = torch.arange(20)[None]
        assert torch.equal(wide.logits(x)[..., :20], small.logits(x))


def test_a_folder_that_is_not_gpt2_is_one_sentence(gpt2, tmp_path):
    shape = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(shape))
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        load_foreign(str(tmp_path))
    shutil.copy(gpt2[1] / "model.safetensors", tmp_path)
    config.write_text(json.dumps({**shape, "activation_function": "relu"}))
    with pytest.raises(UserError, match="a variant of GPT-2"):
        load_foreign(str(tmp_path))
    config.write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(UserError, match="is not GPT-2's"):
        load_foreign(str(tmp_path))
    config.write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(UserError, match=r"of no format that can be imported .*: bert"):
        load_foreign(str(tmp_path))


def test_a_name_says_nothing_of_what_a_folder_holds(gpt2, tmp_path):
    home = shutil.copytree(gpt2[1], tmp_path / "no-such-thing")
    assert load_foreign(str(home), data_dir=str(SHARED)).origin["format"] == "gpt2"
    with pytest.raises(UserError, match="there is no checkpoint or run"):
        load_foreign(str(tmp_path / "gpt2"))


def test_gpt2_is_fine_tuned_on_a_task_and_solves_it_from_the_command_line(gpt2, tmp_path, capsys):
    from adlm.cli import main

    run = str(tmp_path / "run")
    small = ["--items", "12", "--valid", "2", "--epochs", "3", "--stages", "1", "--batch", "6"]
    words = ["reason", "train", "arithmetic", "acot", "--base", str(gpt2[1]), *small, "--out", run]
    words += ["--data-dir", str(SHARED), "--knobs", '{"least": 2, "most": 2, "limit": 8}']
    assert main(words) == 2
    assert "--add-tokens" in capsys.readouterr().err
    assert main([*words, "--add-tokens"]) == 0
    assert main(["reason", "eval", run, "arithmetic", "--limit", "4"]) == 0
    assert "of 4 right" in capsys.readouterr().out


@pytest.mark.parametrize("objective", ["ar", "a2r", "mdlm", "adlm", "bd3lm"])
def test_gpt2_is_a_base_for_every_objective(gpt2, tmp_path, objective, monkeypatch):
    """The folder itself, never imported: a step of training from its weights."""
    monkeypatch.setenv("ADLM_DATA", str(SHARED))
    _, folder = gpt2
    config = recipe(f"laptop-{objective}")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"w{i % 40} w{i % 7}" for i in range(400)))
    data = replace(config.data, name=str(text), length=16)
    made = replace(config, data=data, train=replace(config.train, steps=1, batch=2, eval_rows=2))
    made = based(made, open_base(str(folder)))
    assert train(made, tmp_path / "run") == 0
    model = adlm.load(tmp_path / "run", "cpu")
    assert model.config.model.positions == "learned"
    assert model.config.model.shift == (objective in ("mdlm", "adlm"))
    assert model.nll(["w1 w2"], draws=2)[0] > 0


def test_more_positions_than_gpt2_has_are_one_sentence(gpt2, tmp_path, monkeypatch):
    monkeypatch.setenv("ADLM_DATA", str(SHARED))
    _, folder = gpt2
    config = recipe("laptop-mdlm")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"w{i % 40} w{i % 7}" for i in range(4000)))
    data = replace(config.data, name=str(text), length=64)
    made = based(replace(config, data=data), open_base(str(folder)))
    with pytest.raises(UserError, match="learned positions, and 65 are needed"):
        train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()
