"""Without a checkpoint a command takes a shipped model, and says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import adlm
from adlm.cli import main
from adlm.config import Config, DataConfig, ModelConfig
from adlm.data.lengths import Lengths
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.hub.export import export
from adlm.models import checkpoint, shipped
from adlm.models.build import build_model

SHAPE = ModelConfig(width=16, blocks=1, heads=2, tied=True)
DATA = DataConfig(tokenizer="byte", length=16)
REAL = shipped.names()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of shipped models, made as the real ones are."""
    place = tmp_path / "pretrained"
    torch.manual_seed(0)
    for name in ("ar", "bd3lm", "mdlm"):
        config = Config(name, DATA, replace(SHAPE))
        model, vocab = build_model(config, byte_vocab().size), byte_vocab()
        torch.nn.init.normal_(model.embed.weight)
        found = adlm.Model(model, vocab, config, "cpu", Lengths.unknown(16))
        found.save(tmp_path / name)
        export(checkpoint.load(tmp_path / name), place / name, bits=16)
    monkeypatch.setattr(shipped, "HOME", place)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return place


def said(capsys) -> tuple[str, str]:
    found = capsys.readouterr()
    lines = [line for line in found.err.splitlines() if "shipped" in line]
    return found.out, " ".join(lines)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["sample", "--steps", "4"], "bd3lm"),
        (["infill", "a [MASK:2] b"], "mdlm"),
        (["watch", "--steps", "2", "--speed", "1000"], "bd3lm"),
        (["watch", "--text", "a [MASK:2] b", "--speed", "1000"], "mdlm"),
    ],
)
def test_a_command_without_a_checkpoint_takes_a_shipped_model_and_says_so(
    words, name, home, capsys
):
    assert main(words) == 0
    out, line = said(capsys)
    assert line == f"no checkpoint is named: this is '{name}', a small model shipped with adlm"
    assert "tokens/s" in out


def test_load_without_a_path_is_the_one_that_writes_best(home, capsys):
    assert adlm.load().config.objective == "bd3lm"
    assert "'bd3lm'" in said(capsys)[1]
    assert adlm.load("ar").config.objective == "ar"
    assert not said(capsys)[1]


def test_a_folder_of_ones_own_comes_before_a_shipped_model_of_its_name(home, tmp_path):
    config = replace(Config("mdlm", DATA, SHAPE), train=replace(Config().train, seed=7))
    made = adlm.Model(build_model(config, 258), byte_vocab(), config, "cpu", Lengths.unknown(16))
    made.save("ar")
    assert adlm.load("ar").config.train.seed == 7


def test_what_suits_a_shipped_model_is_a_default_only(home, capsys, tmp_path):
    def texts(*words):
        assert main(["sample", *words, "-n", "3", "--json", "x.jsonl"]) == 0
        return [json.loads(line)["text"] for line in Path("x.jsonl").read_text().splitlines()]

    best, nucleus, exact = texts(), texts("--nucleus", "0.9"), texts("bd3lm")
    assert best == texts("bd3lm", "--goal", "best")
    assert nucleus == texts("--sampler", "first-hitting")
    assert exact == texts("--nucleus", "1")
    assert best != nucleus != exact != best


def test_the_server_has_all_of_them(home, capsys):
    assert [Path(p).name for p in shipped.every()] == ["ar", "bd3lm", "mdlm"]
    line = "no checkpoint is named: ar, bd3lm, mdlm are small models shipped with adlm"
    assert said(capsys)[1] == line


def test_without_shipped_models_it_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shipped, "HOME", tmp_path)
    assert main(["sample"]) == 2
    assert "adlm: name a checkpoint or run: this copy of adlm" in capsys.readouterr().err
    with pytest.raises(UserError, match="came without"):
        adlm.load()


def test_sixteen_bits_store_a_tied_matrix_once_and_load_as_they_are(home, tmp_path):
    stored = load_file(home / "mdlm" / "model.safetensors")
    assert "head.weight" not in stored
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}
    before, after = adlm.load(tmp_path / "mdlm"), adlm.load(home / "mdlm")
    own = before.network.state_dict()
    for name, tensor in after.network.state_dict().items():
        assert torch.equal(tensor, own[name].bfloat16().float())


@pytest.mark.skipif(not REAL, reason="this copy came without its small models")
def test_the_models_that_are_shipped_are_whole_small_and_measured():
    files = [p for name in REAL for p in shipped.HOME.joinpath(name).rglob("*")]
    assert sum(p.stat().st_size for p in files if p.is_file()) <= 25_000_000
    assert {shipped.WRITES, shipped.FILLS, "ar"} <= set(REAL)
    for name in REAL:
        saved = checkpoint.load(shipped.HOME / name)
        assert saved.config.objective == name
        assert saved.config.data.dir is None
        assert len(adlm.load(name).generate("The", max_new_tokens=4)[0]) > 3
        found = json.loads((saved.path / "results.json").read_text(encoding="utf-8"))
        assert found["checkpoint_hash"] == saved.hash
        assert found["split"] == "test"


def test_a_text_of_which_nothing_is_asked_begins_as_an_address(capsys):
    if not shipped.names():
        pytest.skip("no shipped models")
    assert main(["sample", "--steps", "4"]) == 0
    assert f"\n{shipped.SALUTE}" in capsys.readouterr().out
    assert main(["sample", "--steps", "4", "--length", "32"]) == 0
    assert shipped.SALUTE not in capsys.readouterr().out
