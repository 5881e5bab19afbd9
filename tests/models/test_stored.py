"""What is stored is data: whatever stands in it is checked, and read while others remove it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

import adlm
from adlm.cli import main
from adlm.errors import UserError
from adlm.models import checkpoint, history
from adlm.models.hub import load_model
from adlm.train.run import train
from tests.conftest import make_config
from tests.models.test_checkpoint import forge, saved  # noqa: F401


@pytest.mark.parametrize("name", ["ema.embed.weight", "optim.adamw.0.exp_avg", "weights.norm"])
@pytest.mark.parametrize("kind", ["scalar", "flat", "whole numbers", "nan", "gone", "more"])
def test_tensors_to_resume_from_are_never_stretched(saved, name, kind, capsys):  # noqa: F811
    tensors = load_file(saved / "train.safetensors")
    name = next(n for n in tensors if n.startswith(name.rsplit(".", 1)[0]) and tensors[n].ndim)
    made = {
        "scalar": torch.tensor(0.5),
        "flat": tensors[name].flatten()[:1].clone(),
        "whole numbers": tensors[name].long(),
        "nan": torch.full_like(tensors[name], float("nan")),
    }
    if kind == "gone":
        del tensors[name]
    elif kind == "more":
        tensors[name + ".x"] = tensors[name].clone()
    else:
        tensors[name] = made[kind]
    save_file(tensors, saved / "train.safetensors")
    forge(saved)
    assert main(["train", "--resume", str(saved.parents[1]), "--train.steps", "3"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "step-00000002" in said
    assert name.split(".", 1)[1] in said


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("words", ["sample {}", "eval likelihood {}", "watch {}"])
def test_weights_that_are_no_numbers_are_refused(saved, bad, words, capsys):  # noqa: F811
    tensors = load_file(saved / "model.safetensors")
    next(iter(tensors.values())).flatten()[0] = bad
    save_file(tensors, saved / "model.safetensors")
    forge(saved)
    assert main(words.format(saved).split()) == 2
    assert "numbers that are not finite" in capsys.readouterr().err


@pytest.mark.parametrize("objective", ["mdlm", "ar"])
def test_a_network_that_overflows_writes_nothing(text_file, tmp_path, objective):
    train(make_config(text_file, objective, steps=1), tmp_path / "run")
    model = adlm.load(tmp_path / "run")
    with torch.no_grad():
        model.network.head.weight.fill_(3e38)
    with pytest.raises(UserError, match="gives numbers that are not finite"):
        model.generate()


def edited(folder, **changes) -> None:
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"]["vocab"] |= changes
    (folder / "tokenizer.json").write_text(json.dumps(values))
    forge(folder)


@pytest.mark.parametrize("number", [2**31, 2**32, -1, 1.5, "7", None, 2**24])
def test_ids_of_a_tokenizer_are_looked_at_first(saved, number):  # noqa: F811
    edited(saved, odd=number)
    with pytest.raises(UserError, match=r"the id of 'odd' must be a whole number from 0 to"):
        checkpoint.load(saved)


@pytest.mark.parametrize("change", [{"mask": 10**6}, {"pad": -1}, {"eos": 1.0}, {"hash": 3}])
def test_special_ids_are_of_the_vocabulary(saved, change):  # noqa: F811
    values = json.loads((saved / "vocab.json").read_text())
    (saved / "vocab.json").write_text(json.dumps(values | change))
    forge(saved)
    with pytest.raises(UserError, match=next(iter(change))):
        checkpoint.load(saved)


def test_one_that_is_removed_while_it_is_held_is_read_to_its_end(text_file, tmp_path):
    train(make_config(text_file, steps=2, save_every=1), tmp_path / "run")
    old, new = history.steps(tmp_path / "run")
    held = checkpoint.load(old)
    history.drop(tmp_path / "run", keep=1)
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir()] == [new.name]
    assert load_model(held).head.weight.isfinite().all()
    assert held.training()
    assert held.lengths().counts.sum() > 0


WRITER = """
import sys
from pathlib import Path
from adlm.models import checkpoint
from adlm.train.workload import RunState
run = Path(sys.argv[1])
old = checkpoint.load(run)
weights, training = old.weights(), old.training()
for step in range(3, 10**6):
    state = RunState(step=step, seconds=1.0)
    checkpoint.save(run, step, old.config, old.vocab, weights, training, state, keep=1)
"""


def test_a_run_can_be_read_while_its_checkpoints_come_and_go(saved):  # noqa: F811
    run = saved.parents[1]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(run)])
    try:
        seen, until = set(), time.monotonic() + 60
        while len(seen) < 15 and time.monotonic() < until:
            found = checkpoint.load(run)
            load_model(found)
            seen.add(found.step)
            assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert len(seen) >= 15, "checkpoints came and went meanwhile"
