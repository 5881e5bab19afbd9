"""Processes that are lost, told to stop, or started by two agents; each has many real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adlm.models import checkpoint
from tests.train.test_run import metrics
from tests.train.test_shard import training

ROOT = Path(__file__).parents[2]
WAY = "--optim.name adamw --train.shard full"
ENOUGH = 600.0  # seconds

pytestmark = pytest.mark.slow


def launch(words: list[str], *how: str) -> subprocess.Popen[str]:
    """An agent of torchrun, by default alone on its machine."""
    start = [sys.executable, "-m", "torch.distributed.run", *(how or ("--standalone",))]
    return subprocess.Popen(
        [*start, "--nproc-per-node", "2", "-m", "adlm", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoint(run: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + ENOUGH
    while not checkpoint.steps(run):
        time.sleep(0.02)
        assert process.poll() is None
        assert time.monotonic() < until


def workers(agent: subprocess.Popen[str]) -> list[int]:
    words = ["ps", "-o", "pid=", "--ppid", str(agent.pid)]
    return [int(w) for w in subprocess.run(words, capture_output=True, check=True).stdout.split()]


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_process_ends_all_and_a_restart_has_the_same_end(text_file, tmp_path, which):
    whole = launch(training(text_file, tmp_path / "whole", WAY, 60))
    assert whole.wait(ENOUGH) == 0
    run = tmp_path / "killed"
    agent = launch(training(text_file, run, WAY, 60), "--standalone", "--max-restarts", "1")
    wait_for_checkpoint(run, agent)
    os.kill(workers(agent)[which], signal.SIGKILL)
    _, said = agent.communicate(timeout=ENOUGH)
    assert agent.returncode == 0, said[-3000:]
    assert f"adlm: process {1 - which} of 2 stops, for another one was lost" in said
    assert "goes on   from step" in said
    assert metrics(run) == metrics(tmp_path / "whole")


def test_a_lost_process_without_restarts_leaves_the_last_checkpoint(text_file, tmp_path):
    run = tmp_path / "run"
    agent = launch(training(text_file, run, WAY, 4000))
    wait_for_checkpoint(run, agent)
    os.kill(workers(agent)[1], signal.SIGKILL)
    _, said = agent.communicate(timeout=ENOUGH)
    assert agent.returncode != 0
    assert f"adlm train --resume {run} goes on from the last checkpoint" in said
    assert checkpoint.load(run).step % 2 == 0


def test_preemption_saves_in_time(text_file, tmp_path):
    run = tmp_path / "run"
    words = training(text_file, run, WAY, 4000)
    words[words.index("--train.save_every") + 1] = "100000"
    agent = launch(words)
    while len(metrics(run)) < 5:
        time.sleep(0.02)
        assert agent.poll() is None
    agent.terminate()  # what a cluster sends, some time before it kills
    _, said = agent.communicate(timeout=ENOUGH)
    assert "with a checkpoint" in said
    assert checkpoint.load(run).step == metrics(run)[-1]["step"] < 4000


def test_two_nodes_train_as_one_does(text_file, tmp_path):
    """Two agents that meet at one rendezvous are what two machines are."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        place = f"localhost:{found.getsockname()[1]}"
    how = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint", place]
    words = training(text_file, tmp_path / "two", WAY, 4)
    agents = [launch(words, *how) for _ in range(2)]
    for agent in agents:
        _, said = agent.communicate(timeout=ENOUGH)
        assert agent.returncode == 0, said[-3000:]
    assert len(checkpoint.load(tmp_path / "two").parts) == 4
    one = launch(training(text_file, tmp_path / "one", WAY, 4))
    assert one.wait(ENOUGH) == 0
    for left, right in zip(metrics(tmp_path / "two"), metrics(tmp_path / "one"), strict=True):
        assert left == pytest.approx(right, rel=1e-5)
