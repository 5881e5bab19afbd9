"""Training: resume to the bit, survive kill -9, signals, several processes, bad losses."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from adlm import device as devices
from adlm.cli import main
from adlm.config import AnchorConfig, Config, to_dict
from adlm.errors import RunStopped, UserError
from adlm.models import checkpoint
from adlm.registry import allow
from adlm.train.log import read
from adlm.train.run import train
from adlm.world import World
from tests.conftest import make_config
from tests.train.gradients import gradients

TIMES = {"seconds", "tokens_per_s"}
ANCHORED = ("adlm", "a2r")


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoint.find(run) / "train.safetensors")


def metrics(run: Path) -> list[dict]:
    return [{k: v for k, v in r.items() if k not in TIMES} for r in read(run / "metrics.jsonl")]


def assert_same_run(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[k], right[k]) for k in left)
    assert metrics(a) == metrics(b)


def assert_runs_agree(a: Path, b: Path) -> None:
    """Two runs differ by rounding only; AdamW's, as Muon multiplies in bf16 and widens it."""
    for left, right in zip(metrics(a), metrics(b), strict=True):
        assert left == pytest.approx(right, rel=1e-5, abs=1e-7)  # fp32 nats have no more digits


@pytest.mark.parametrize("objective", ["ar", "mdlm", "adlm", "a2r"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resume_equals_uninterrupted_bit_for_bit(text_file, tmp_path, objective, optimizer):
    config = make_config(text_file, objective, eval_every=2, save_every=3)
    config = replace(
        config,
        optim=replace(config.optim, name=optimizer, decay="constant"),
        model=replace(config.model, dropout=0.1, anchor_blocks=1 if objective in ANCHORED else 0),
        anchor=AnchorConfig(rule="tfidf", gamma=0.1),
    )
    assert train(config, tmp_path / "whole") == 0
    half = replace(config, train=replace(config.train, steps=5))
    assert train(half, tmp_path / "parts") == 0
    assert train(config, tmp_path / "parts", resume=True) == 0
    # the shorter run evaluates at its own end; that line is its only difference
    extra = [r for r in metrics(tmp_path / "parts") if r["step"] == 5 and "valid_nll" in r]
    assert len(extra) == 1
    left, right = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(left[k], right[k]) for k in left)
    assert metrics(tmp_path / "whole") == [r for r in metrics(tmp_path / "parts") if r not in extra]


def start(config: Config, run: Path, *more: str) -> subprocess.Popen:
    """The real program on a configuration, in a process of its own."""
    code = (
        "import json, sys; from pathlib import Path; from adlm.config import from_dict;"
        "from adlm.train.run import train; import torch; torch.set_num_threads(1);"
        "sys.exit(train(from_dict(json.loads(sys.argv[1])), Path(sys.argv[2]), True))"
    )
    return subprocess.Popen(
        [sys.executable, *more, "-c", code, json.dumps(to_dict(config)), str(run)],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_at_random_moments_it_still_ends_at_the_same_bits(text_file, tmp_path):
    config = make_config(text_file, steps=160, eval_every=50, save_every=2, log_every=3)
    process = start(config, tmp_path / "whole")
    process.communicate()
    assert process.returncode == 0
    dice = random.Random(0)
    run, kills = tmp_path / "killed", 0
    while kills < 4:  # `make attack` kills hundreds
        process = start(config, run)
        known = checkpoint.steps(run)[-1:]
        if kills % 3 == 2:  # any moment from the start, not only beside a checkpoint
            time.sleep(dice.uniform(0, 3.0))
        else:
            while process.poll() is None and checkpoint.steps(run)[-1:] == known:
                time.sleep(0.005)
            time.sleep(dice.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
    assert kills >= 3
    process = start(config, run)
    process.communicate()
    assert process.returncode == 0
    assert_same_run(tmp_path / "whole", run)
    assert not list((run / "checkpoints").glob(".*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_leave_and_resume_goes_on(text_file, tmp_path, number):
    config = make_config(text_file, steps=4000, save_every=0)
    run = tmp_path / "run"
    process = start(config, run)
    while not (run / "metrics.jsonl").exists() or len(read(run / "metrics.jsonl")) < 5:
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"adlm train --resume {run} goes on" in said
    (saved,) = checkpoint.steps(run)
    step = int(saved.name.split("-")[1])
    assert step == metrics(run)[-1]["step"] < 4000
    short = replace(config, train=replace(config.train, steps=step + 2))
    assert train(short, run, resume=True) == 0
    assert checkpoint.find(run).name == f"step-{step + 2:08d}"


def torchrun(processes: int, *words: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--standalone"]  # a free port
    done = subprocess.run(
        [*command, *words],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-6000:]


def test_two_processes_have_the_gradients_of_one(text_file, tmp_path):
    configs = {}
    for objective in ("ar", "adlm"):
        for micro in (0, 2):
            config = make_config(text_file, objective, batch=7, micro=micro)
            if objective in ANCHORED:
                anchor = AnchorConfig(rule="corpus", gamma=0.1, warmup=0.0)
                model = replace(config.model, anchor_blocks=1)
                config = replace(config, model=model, anchor=anchor)
            configs[f"{objective}-{micro}"] = config
    given = json.dumps({name: to_dict(config) for name, config in configs.items()})
    torchrun(2, "-m", "tests.train.gradients", given, str(tmp_path))
    for name, config in configs.items():
        alone = gradients(replace(config, train=replace(config.train, micro=0)), World())
        shared = load_file(tmp_path / name)
        assert alone.keys() == shared.keys()
        for weight, gradient in alone.items():
            close = torch.allclose(gradient, shared[weight], rtol=1e-4, atol=1e-6)
            assert close, f"{name}: {weight}"
        assert any(g.abs().max() > 1e-3 for g in alone.values())


def test_torchrun_trains_as_one_process_does(text_file, tmp_path):
    words = ["laptop-mdlm", "--data", str(text_file), "--data.tokenizer", "byte"]
    words += ["--data.length", "16", "--model.width", "16", "--model.heads", "2"]
    words += ["--model.blocks", "1", "--train.steps", "6", "--train.batch", "8"]
    words += ["--train.precision", "fp32", "--train.log_every", "1", "--train.eval_rows", "4"]
    words += ["--optim.name", "adamw", "--optim.lr", "1e-3"]
    for processes in (1, 2):
        torchrun(processes, "-m", "adlm", "train", *words, "--out", str(tmp_path / str(processes)))
    assert_runs_agree(tmp_path / "1", tmp_path / "2")


def test_a_loss_that_is_not_finite_stops_with_the_batch(text_file, tmp_path):
    config = make_config(text_file, steps=50, save_every=1)
    config = replace(config, optim=replace(config.optim, name="adamw", lr=1e36, clip=0.0, warmup=0))
    with pytest.raises(RunStopped, match="not finite at step") as caught:
        train(config, tmp_path / "run")
    assert "optim.lr" in str(caught.value)
    (kept,) = (tmp_path / "run").glob("bad-step-*.safetensors")
    assert load_file(kept)["x"].shape == (4, 16)


def test_accumulation_changes_nothing_but_rounding(text_file, tmp_path):
    config = make_config(text_file, steps=4)
    config = replace(config, optim=replace(config.optim, name="adamw"))
    train(config, tmp_path / "whole")
    train(replace(config, train=replace(config.train, micro=1)), tmp_path / "pieces")
    assert_runs_agree(tmp_path / "whole", tmp_path / "pieces")


def test_tensorboard_events_are_written(text_file, tmp_path):
    train(make_config(text_file, steps=2, tensorboard=True), tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_folders_of_other_runs_are_refused_and_kept(text_file, tmp_path):
    config = make_config(text_file, steps=2)
    train(config, tmp_path / "run")
    before = sorted(p.name for p in (tmp_path / "run").rglob("*"))
    with pytest.raises(UserError, match="holds a run already"):
        train(config, tmp_path / "run")
    other = replace(config, model=replace(config.model, width=32))
    with pytest.raises(UserError, match=r"other settings \(model.width\)"):
        train(other, tmp_path / "run", resume=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keep.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        train(config, tmp_path / "notes")
    assert before == sorted(p.name for p in (tmp_path / "run").rglob("*"))
    assert [p.name for p in (tmp_path / "notes").iterdir()] == ["keep.txt"]


def test_a_run_from_before_a_setting_goes_on(text_file, tmp_path):
    config = make_config(text_file, steps=2)
    train(config, tmp_path / "run")
    stored = tmp_path / "run" / "config.json"
    values = json.loads(stored.read_text())
    del values["anchor"]["until"]
    stored.write_text(json.dumps(values))
    longer = replace(config, train=replace(config.train, steps=4))
    train(longer, tmp_path / "run", resume=True)
    assert metrics(tmp_path / "run")[-1]["step"] == 4
    stored.write_text("[]")
    with pytest.raises(UserError, match=r"config.json must be an object, found \[\]"):
        train(longer, tmp_path / "run", resume=True)


def test_changed_data_are_not_mixed_into_a_run(text_file, tmp_path):
    config = make_config(text_file, steps=2)
    train(config, tmp_path / "run")
    text_file.write_text(text_file.read_text().replace("union", "onion"))
    longer = replace(config, train=replace(config.train, steps=4))
    with pytest.raises(UserError, match="they have changed since"):
        train(longer, tmp_path / "run", resume=True)


def test_two_processes_cannot_train_in_one_folder(text_file, tmp_path):
    config = make_config(text_file, steps=4000)
    run = tmp_path / "run"
    process = start(config, run)
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.01)
    with pytest.raises(UserError, match="another process is training"):
        train(config, run, resume=True)
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


def test_a_rule_that_fails_leaves_nothing_behind(text_file, tmp_path):
    rule = "tests.process.test_anchors:wrong_shape"
    allow(rule)
    config = make_config(text_file, "adlm")
    config = replace(
        config, model=replace(config.model, anchor_blocks=1), anchor=AnchorConfig(rule=rule)
    )
    with pytest.raises(UserError, match="must return a bool tensor"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_killed_before_its_first_file_can_start_again(text_file, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".config.json.0123.tmp").write_text("{")
    assert train(make_config(text_file, steps=1), run) == 0


WORDS = ["--data.tokenizer", "byte", "--data.length", "16", "--size", "pico", "--train.batch", "4"]
WORDS += ["--train.eval_rows", "4", "--train.eval_every", "1"]


def test_a_run_goes_on_by_its_folder_alone(text_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["train", "laptop-mdlm", "--data", str(text_file), *WORDS, "--out", "runs/mine"]
    assert main([*given, "--train.steps", "3"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"model +mdlm, [\d,]+ parameters\n", said)
    assert re.search(r"data +\S+corpus.txt: [\d,]+ rows, [\d,]+ tokens\n", said)
    assert re.search(r"training +3 steps of 4 rows of 16: 192 tokens, 0.0 epochs\n", said)
    assert re.search(r"on +cpu \(\d+ threads\), (fp32|bf16)\n", said)
    assert re.search(r"validation PPL ≤ [\d.]+ ± [\d.]+   [▁▂▃▄▅▆▇█]{3}\n", said)
    nexts = "next: adlm sample runs/mine, adlm watch runs/mine, adlm eval likelihood runs/mine\n"
    assert said.endswith(nexts)
    assert main(["train", "--resume", "runs/mine"]) == 0
    assert "runs/mine is done: 3 steps" in capsys.readouterr().err
    assert main(["train", "--resume", "runs/mine", "--train.steps", "5"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("train.steps 3 -> 5\n")
    assert "goes on   from step 3" in said
    assert main(["train", "--train.steps", "6", "--resume", "runs/mine", "--train.keep=1"]) == 0
    said = capsys.readouterr().err
    assert "train.keep 2 -> 1\ntrain.steps 5 -> 6\n" in said
    assert main([*given, "--train.steps", "7", "--resume"]) == 0  # the longer form
    assert metrics(Path("runs/mine"))[-1]["step"] == 7


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("runs/mine", "runs/mine holds a run already: continue it with --resume"),
        ("--resume runs/mine --model.width 8", "resume it with its own (adlm train --resume runs"),
        ("--resume runs/mine --out runs/other", "goes on in its own folder: leave out --out"),
        ("{checkpoint}", "is a checkpoint: add --resume to go on from it in its run"),
    ],
)
def test_a_run_is_not_resumed_as_another(words, says, text_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train(make_config(text_file, steps=1), Path("runs/mine"))
    capsys.readouterr()
    found = str(checkpoint.find("runs/mine"))
    assert main(["train", *words.format(checkpoint=found).split()]) == 2
    assert says in capsys.readouterr().err


def test_a_run_that_began_in_fp32_goes_on_in_it_wherever_it_is_resumed(
    text_file, tmp_path, monkeypatch
):
    config = make_config(text_file, precision="auto", steps=4, save_every=2)
    monkeypatch.setattr(devices, "precision", lambda asked, device: "fp32")
    train(config, tmp_path / "run")
    monkeypatch.setattr(devices, "precision", lambda asked, device: "bf16")
    longer = replace(config, train=replace(config.train, steps=6))
    train(longer, tmp_path / "run", resume=True)
    train(longer, tmp_path / "new")
    for run, right in (("run", "fp32"), ("new", "bf16")):
        state = checkpoint.steps(tmp_path / run)[-1] / "state.json"
        assert json.loads(state.read_text(encoding="utf-8"))["precision"] == right


def test_the_speed_is_that_of_the_tokens_and_seconds_beside_it(text_file, tmp_path):
    train(make_config(text_file, steps=8, log_every=1), tmp_path / "run")
    records = [r for r in read(tmp_path / "run" / "metrics.jsonl") if "tokens_per_s" in r]
    for record in records:
        assert record["tokens_per_s"] == pytest.approx(
            record["tokens"] / record["seconds"], rel=0.1
        )
