"""Every command of docs/scale.md runs, with the CPU's sizes in place of a cluster's."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from adlm.models import checkpoint
from tests.docs.test_docs import SMALL, commands_of

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
FEWER = {"8": "2", "4": "1", "owt-adlm": "laptop-adlm", "1000": "3", "node1:29500": ""}
DATA = "--data.tokenizer byte --data.length 16 --train.device cpu"

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def at_home(command: str, corpus: Path) -> list[str]:
    """A command's words with 2 processes for 8, a small model for a large one, this machine."""
    words = [FEWER.get(w, w) or f"localhost:{free_port()}" for w in shlex.split(command)]
    if "train" in words and words[words.index("train") + 1] == "--resume":
        words += ["--train.steps", "4"]
    elif "train" in words:
        words += [*SMALL.split(), *DATA.split(), "--data", str(corpus)]
    if "likelihood" in words:
        words += ["--limit", "20"]
    return [*TORCHRUN, *words[1:]] if words[0] == "torchrun" else [sys.executable, "-m", *words]


def run(commands: list[list[str]], folder: Path, **env: str) -> None:
    """Run one command, or the same by several agents at once."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **env}
    agents = [
        subprocess.Popen(words, cwd=folder, env=settings, stderr=subprocess.PIPE, text=True)
        for words in commands
    ]
    for agent in agents:
        _, said = agent.communicate(timeout=900)
        assert agent.returncode == 0, (agent.args, said[-3000:])


def test_every_command_of_the_page_runs(tmp_path, text_file):
    commands = commands_of("docs/scale.md")
    assert len(commands) == 8
    for command in commands:
        words = at_home(command, text_file)
        run([words] * (2 if "--nnodes" in words else 1), tmp_path)
    counts = {run.name: len(checkpoint.load(run).parts) for run in (tmp_path / "runs").iterdir()}
    assert counts == {"adlm": 0, "two": 2, "owt": 0, "large": 2, "cluster": 4}
    assert len((tmp_path / "texts.jsonl").read_text().splitlines()) == 3


def test_the_script_for_slurm_runs(tmp_path, text_file):
    """With srun and scontrol that are this machine's shell."""
    for name, body in {
        "srun": 'shift; exec "$@"',
        "scontrol": "echo localhost",
        "torchrun": f'exec {sys.executable} -m torch.distributed.run "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    words = ["bash", str(ROOT / "examples" / "slurm.sh"), *SMALL.split(), *DATA.split()]
    words += ["--data", str(text_file)]
    about = {"SLURM_JOB_NODELIST": "localhost", "SLURM_NNODES": "1", "SLURM_JOB_ID": "7"}
    about |= {"RECIPE": "laptop-adlm", "PROCESSES": "2", "PORT": str(free_port())}
    run([words], tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}", **about)
    assert len(checkpoint.load(tmp_path / "runs" / "laptop-adlm").parts) == 2
