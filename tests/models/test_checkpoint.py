"""A checkpoint is whole or refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from adlm.cli import main
from adlm.config import AnchorConfig
from adlm.data.corpus import open_rows
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.models.manifest import FileRecord
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.train.run import train
from adlm.train.workload import RunState
from adlm.world import World
from tests.conftest import make_config


@pytest.fixture
def saved(text_file, tmp_path):
    train(make_config(text_file, steps=2), tmp_path / "run")
    return checkpoint.find(tmp_path / "run")


def test_counts_stand_beside_the_weights_and_an_older_run_that_kept_them_twice_resumes(
    text_file, tmp_path
):
    """Once they were buffers of the network, and stood among the weights to resume from too."""
    plain = make_config(text_file, "adlm", steps=4, save_every=2, keep=9)
    anchor = AnchorConfig(rule="corpus", share=0.4)
    config = replace(plain, model=replace(plain.model, anchor_blocks=1), anchor=anchor)
    train(config, tmp_path / "run")
    middle, last = checkpoint.steps(tmp_path / "run")
    saved = checkpoint.load(middle)
    rows = open_rows(config.data, "train", saved.vocab)
    for found, right in zip(
        vars(saved.counts()).values(),
        vars(CorpusCounts.count(rows, saved.vocab.size)).values(),
        strict=True,
    ):
        assert torch.equal(found, right)
    assert not any(name.startswith("table_") for name in saved.weights())
    old = load_file(middle / "train.safetensors")
    beside = {f"weights.table_{n}": t for n, t in vars(saved.counts()).items()}
    save_file(old | beside, middle / "train.safetensors")
    forge(middle)
    resumed = Engine(LanguageModelling(config, "cpu"), tmp_path / "run", World())
    resumed.resume(middle)
    resumed.advance()
    resumed.advance()
    right = checkpoint.load(last).training()
    for name, tensor in resumed.model.state_dict().items():
        assert torch.equal(tensor, right[f"weights.{name}"]), name


def test_counts_of_another_vocabulary_are_refused(saved):
    weights = load_file(saved / "model.safetensors")
    beside = {f"table_{n}": t.clone() for n, t in vars(CorpusCounts.even(3)).items()}
    save_file(weights | beside, saved / "model.safetensors")
    forge(saved)
    with pytest.raises(UserError, match=r"table_tokens must have shape \(258,\)"):
        checkpoint.load(saved).counts()


def forge(folder) -> None:
    """Make the manifest agree with the files again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {name: asdict(FileRecord.of(folder / name)) for name in manifest["files"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def cut(path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "vocab.json"]
)
@pytest.mark.parametrize(
    ("damage", "says"), [("rm", "missing"), (cut, "truncated"), (flip, "sha256")]
)
def test_damage_is_found_before_use(saved, name, damage, says):
    (saved / name).unlink() if damage == "rm" else damage(saved / name)
    with pytest.raises(UserError, match=says):
        checkpoint.load(saved)


def test_a_foreign_tokenizer_is_found(saved):
    byte_vocab().tokenizer.save(str(saved / "tokenizer.json"))
    text = (saved / "tokenizer.json").read_text().replace("byte", "byte", 1)
    (saved / "tokenizer.json").write_text(text.replace("<|eos|>", "<|end|>"))
    forge(saved)
    with pytest.raises(UserError, match="not the tokenizer of this checkpoint"):
        checkpoint.load(saved)


def test_foreign_weights_are_found(saved, text_file, tmp_path):
    from dataclasses import replace

    config = make_config(text_file, steps=1)
    train(replace(config, model=replace(config.model, width=32)), tmp_path / "other")
    shutil.copy(checkpoint.find(tmp_path / "other") / "model.safetensors", saved)
    forge(saved)
    with pytest.raises(UserError, match="has shape"):
        load_model(checkpoint.load(saved))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "damaged"),
        ('{"format": 1}', "damaged"),
        ('{"format": 1, "files": "x"}', "damaged"),
        ('{"format": 1, "files": {"model.safetensors": {}}}', "damaged"),
        ('{"format": 99, "files": {}}', "format 99"),
        ("[" * 100_000, "damaged"),
        ("[]", "damaged"),
        ('{"format": 1, "files": {"../../x": {"bytes": 1, "sha256": ""}}}', "no file's name"),
        ('{"format": 1, "files": {"x": {"bytes": "1", "sha256": ""}}}', "damaged"),
    ],
)
def test_bad_manifests(saved, text, says):
    (saved / "manifest.json").write_text(text)
    with pytest.raises(UserError, match=says):
        checkpoint.load(saved)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        b'{"step": 2',
        b"\xff\xfe",
        b'{"step": "2", "seconds": 1}',
        b'{"step": -1, "seconds": 1}',
        b'{"step": 2}',
    ],
)
def test_a_damaged_state_is_refused_before_a_step(saved, bad, capsys):
    (saved / "state.json").write_bytes(bad)
    forge(saved)
    assert main(["train", "--resume", str(saved.parents[1]), "--train.steps", "3"]) == 2
    assert "state.json" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "3", '{"model": {"width": "wide"}}', '{"model": 4}', ""])
def test_a_damaged_configuration_is_one_sentence(saved, text):
    (saved / "config.json").write_text(text)
    forge(saved)
    with pytest.raises(UserError):
        checkpoint.load(saved)


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match="there is no checkpoint"):
        checkpoint.load(tmp_path / "nothing")
    with pytest.raises(UserError, match="neither a checkpoint"):
        checkpoint.load(tmp_path)


def test_a_full_disk_keeps_the_earlier_checkpoints(saved, monkeypatch):
    run = saved.parents[1]
    loaded = checkpoint.load(saved)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match=r"No space left.*earlier ones are untouched"):
        checkpoint.save(
            run, 3, loaded.config, loaded.vocab, {}, {}, RunState(step=3, seconds=0.0), keep=1
        )
    assert checkpoint.find(run) == saved
    assert not list((run / "checkpoints").glob(".*"))


def test_only_the_newest_are_kept(text_file, tmp_path):
    train(make_config(text_file, steps=8, save_every=2, keep=2), tmp_path / "run")
    assert [p.name for p in checkpoint.steps(tmp_path / "run")] == [
        "step-00000006",
        "step-00000008",
    ]


def test_the_lengths_of_training_rows_are_kept(saved):
    found = checkpoint.load(saved).lengths()
    rows = open_rows(checkpoint.load(saved).config.data, "train", byte_vocab())
    assert found.counts.tolist() == Lengths.of(rows.store, 16).counts.tolist()
    assert found.counts.sum() > 0


@pytest.mark.parametrize("bad", ["[1, 2]", "{}", "[" + "-1," * 15 + "1]", "x"])
def test_counts_that_are_none_are_one_sentence(saved, bad):
    (saved / "lengths.json").write_text(bad)
    forge(saved)
    with pytest.raises(UserError, match="must be a list of 16 counts"):
        checkpoint.load(saved).lengths()


def test_what_was_exported_for_use_cannot_be_resumed(saved, tmp_path):
    assert main(["export", str(saved), "--to", str(tmp_path / "out")]) == 0
    exported = checkpoint.load(tmp_path / "out")
    for ask in (exported.training, lambda: exported.state(RunState)):
        with pytest.raises(UserError, match="exported for use only"):
            ask()
