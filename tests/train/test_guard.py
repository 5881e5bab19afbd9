"""A run that goes wrong says so, and what it advises can be done."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from adlm.cli import main
from adlm.errors import RunStopped, UserError
from adlm.models import checkpoint
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.train.log import read
from adlm.train.run import train
from adlm.world import World
from tests.conftest import make_config


def wild(corpus: Path, rate: float, **how: object):
    config = make_config(corpus, "ar", **how)
    return replace(config, optim=replace(config.optim, name="adamw", lr=rate, clip=0.0, warmup=0))


@pytest.mark.parametrize("steps", [3, 40])
def test_a_loss_that_runs_away_is_not_called_done(text_file, tmp_path, steps):
    with pytest.raises(RunStopped, match=r"has diverged: .* nats a token, and guessing costs 5.55"):
        train(wild(text_file, 10.0, steps=steps), tmp_path / "run")
    assert not checkpoint.steps(tmp_path / "run"), "what has diverged is not saved"


def test_the_advice_can_be_followed_word_by_word(text_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train(wild(text_file, 1e-3, steps=2, save_every=2), Path("run"))
    capsys.readouterr()
    assert main(["train", "--resume", "run", "--train.steps", "30", "--optim.lr", "10"]) == 1
    said = capsys.readouterr().err
    assert "optim.lr 0.001 -> 10.0" in said
    again = shlex.split(re.search(r"adlm (train --resume \S+ --optim.lr \S+) goes on", said)[1])
    assert main([*again[:-1], "0.0005", "--train.steps", "4"]) == 0
    changes = [json.loads(line) for line in Path("run/changes.jsonl").read_text().splitlines()]
    rates = [c["changed"]["optim.lr"] for c in changes]
    assert [c["step"] for c in changes] == [2, 2]
    assert rates == [[0.001, 10.0], [10.0, 0.0005]]
    assert json.loads(Path("run/config.json").read_text())["optim"]["lr"] == 0.0005


def test_a_run_goes_back_to_a_named_checkpoint_and_loses_nothing(text_file, tmp_path, capsys):
    run = tmp_path / "run"
    train(wild(text_file, 1e-3, steps=4, save_every=1, keep=9), run)
    before = load_file(run / "checkpoints/step-00000004/train.safetensors")
    assert main(["train", "--resume", str(run / "checkpoints/step-00000002")]) == 0
    names = sorted(p.name for p in (run / "checkpoints").iterdir())
    assert names == [
        *(f"aside-1-step-0000000{n}" for n in (3, 4)),
        *(f"step-0000000{n}" for n in (1, 2, 3, 4)),
    ]
    after = load_file(run / "checkpoints/step-00000004/train.safetensors")
    assert all(torch.equal(before[k], after[k]) for k in before), "the same way, the same bits"
    assert [r["step"] for r in read(run / "metrics.jsonl") if "loss" in r] == [1, 2, 3, 4]


@pytest.mark.parametrize("words", ["--optim.name muon", "--optim.ema 0.5", "--model.width 32"])
def test_what_would_be_another_run_cannot_change(text_file, tmp_path, capsys, words):
    train(wild(text_file, 1e-3, steps=1), tmp_path / "run")
    assert main(["train", "--resume", str(tmp_path / "run"), *words.split()]) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


def test_a_recipe_that_differs_does_not_change_a_run_by_the_way(text_file, tmp_path):
    train(wild(text_file, 1e-3, steps=1), tmp_path / "run")
    with pytest.raises(UserError, match=r"other settings \(optim.lr\)"):
        train(wild(text_file, 1e-4, steps=2), tmp_path / "run", resume=True)


class Faulty(LanguageModelling):
    """Language modelling in which some steps have no finite loss."""

    bad = ()

    def portion(self, step: int, world: World):
        self.broken_now = step in self.bad
        return super().portion(step, world)

    def loss(self, piece, anchor):
        found = super().loss(piece, anchor)
        return found._replace(nats=found.nats * float("nan")) if self.broken_now else found


def fit(config, run: Path, bad: tuple[int, ...]) -> Engine:
    from adlm.train.signals import StopFlag

    run.mkdir()
    workload = Faulty(config, "cpu")
    workload.bad = bad
    engine = Engine(workload, run, World())
    with StopFlag() as stop:
        engine.fit(stop)
    return engine


def test_broken_steps_are_left_out_where_that_is_asked_for(text_file, tmp_path):
    config = make_config(text_file, steps=6, skip_broken=2)
    fit(config, tmp_path / "run", bad=(2, 3))
    records = read(tmp_path / "run" / "metrics.jsonl")
    assert [r["step"] for r in records if "left_out" in r] == [3, 4]
    assert [r["step"] for r in records if "loss" in r] == [1, 2, 5, 6]
    left = load_file(checkpoint.find(tmp_path / "run") / "train.safetensors")
    assert all(t.isfinite().all() for t in left.values())


@pytest.mark.parametrize(("skip", "bad"), [(0, (2,)), (2, (1, 2, 3))])
def test_more_of_them_in_a_row_stop_the_run(text_file, tmp_path, skip, bad):
    config = make_config(text_file, steps=6, skip_broken=skip)
    with pytest.raises(RunStopped, match=f"not finite at step {bad[-1]}; the batch is in"):
        fit(config, tmp_path / "run", bad)


def test_a_step_that_is_left_out_leaves_no_gradient(text_file, tmp_path):
    """The last of two steps is broken: what it left would be added to the next one's."""
    engine = fit(make_config(text_file, steps=2, skip_broken=2), tmp_path / "a", bad=(1,))
    assert all(p.grad is None for p in engine.model.parameters())
