"""Kills at random moments: a run that goes on afterwards ends in the bits of an undisturbed one.

Each case is one run that is killed a few times by -9, TERM, INT or HUP, then finished: its tensors,
its figures and the names of its files must be those of an undisturbed run, and nothing else may be
left, neither half-written files nor processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from safetensors.numpy import load_file

from attack import child, place
from attack.campaign import Outcome

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ROUNDS = 4  # kills of one run
TIMES = {"seconds", "training_seconds", "tokens_per_s", "date", "commit", "machine", "minutes"}
ENDS = {0, 1, 2, 128 + signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGHUP}


@dataclass(frozen=True)
class Target:
    """A command that goes on where it was stopped."""

    name: str
    first: list[str]
    again: list[str]  # the words that resume it
    seconds: float  # about, undisturbed; kills come within so long
    program: list[str] | None = None  # a process of its own instead of a forked one
    near: str = ""  # kill soon after such a file appears
    cold: bool = False  # its cache is empty at first


STEPS = ["--train.save_every", "3", "--train.eval_every", "5", "--train.keep", "2"]
LONG = ["train", "laptop-adlm", *place.SMALL, "--train.steps", "60", *STEPS, "--out", "out"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
PAIR = [*LONG[:1], "laptop-mdlm", *LONG[2:]]
REASON = ["reason", "train", "arithmetic", "cot", *place.REASON, "--items", "96", "--epochs", "3"]
QUICK = [sys.executable, "-m", "tests.commands.small_quickstart", "--out", "out"]
QUICK += ["--steps", "20", "--rows", "4"]
STUDY = [sys.executable, "-m", "attack.small_study"]


def targets() -> list[Target]:
    """Return all targets, the quick ones more often."""
    saves = [*LONG, "--train.save_every", "1"]
    reads = [*LONG, "--data.name", "large.txt", "--data.tokenizer", "bpe:300"]
    reads += ["--train.steps", "2", "--train.keep", "1"]  # a signal saves a step in between
    again = ["--resume"]
    quick = [
        Target("train", LONG, [*LONG, *again], 1.5),
        Target("checkpointing", saves, [*saves, *again], 2.0, near="out/checkpoints/.*.tmp"),
        Target("tokenising", reads, [*reads, *again], 1.0, near="cache/tokens/*.tmp", cold=True),
        Target("reason train", [*REASON, "--out", "out"], [*REASON, "--out", "out", *again], 2.0),
    ]
    both = ["-m", "adlm", *PAIR]
    slow = [
        Target("train, 2 processes", both, [*both, *again], 12.0, TORCHRUN),
        Target("quickstart", [], [], 25.0, QUICK),
        Target("study", [], [], 15.0, STUDY),
    ]
    return quick * 4 + slow


def begin(target: Target, words: list[str], folder: Path, logs: Path) -> Running:
    """Start it, forked or as a program of its own."""
    env = place.environment(folder)
    if target.program is None:
        return Forked(child.start(words, folder, logs, env))
    logs.mkdir(parents=True, exist_ok=True)
    about = {**os.environ, **env, "PYTHONPATH": str(place.ROOT)}
    with (logs / "err").open("wb") as err:
        made = subprocess.Popen(
            [*target.program, *words], cwd=folder, env=about, stdout=err, stderr=err,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return Spawned(made)


class Running:
    """A process that can be asked for and ended."""

    pid: int

    def ended(self) -> bool:
        raise NotImplementedError

    def code(self) -> int:
        raise NotImplementedError

    def kill(self, number: int) -> None:
        """A terminal's signals reach the whole group; -9 the parent alone, as the kernel does."""
        try:
            if number == signal.SIGKILL:
                os.kill(self.pid, number)
            else:
                os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, limit: float) -> bool:
        until = time.monotonic() + limit
        while not self.ended() and time.monotonic() < until:
            time.sleep(0.01)
        return self.ended()


class Forked(Running):
    """A child of `attack.child`."""

    def __init__(self, made: child.Child):
        self.made, self.pid = made, made.pid

    def ended(self) -> bool:
        return self.made.poll()

    def code(self) -> int:
        return os.waitstatus_to_exitcode(self.made.status or 0)


class Spawned(Running):
    """A program of its own."""

    def __init__(self, made: subprocess.Popen):
        self.made, self.pid = made, made.pid

    def ended(self) -> bool:
        return self.made.poll() is not None

    def code(self) -> int:
        return self.made.returncode


def lay_out(target: Target, folder: Path) -> None:
    """Make the folder of a run."""
    place.copy(["corpus.txt"], folder)
    if target.name == "tokenising":
        text = (folder / "corpus.txt").read_text()
        (folder / "large.txt").write_text((text + "\n") * 40)


@cache
def undisturbed(name: str, home: Path) -> dict[str, str]:
    """Return what a run of the target leaves behind if nobody disturbs it; made once, kept."""
    kept = place.HOME / "undisturbed" / f"{name}-{place.source()}.json"
    if kept.is_file():
        return json.loads(kept.read_text())
    target = next(t for t in targets() if t.name == name)
    folder = home / "undisturbed"
    lay_out(target, folder)
    process = begin(target, target.first, folder, home / "logs")
    if not process.wait(600) or process.code():
        raise SystemExit(f"{name}: {(home / 'logs' / 'err').read_text()[-2000:]}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(remains(folder)))
    return remains(folder)


def remains(folder: Path) -> dict[str, str]:
    """Return every file that is left with a hash of what matters in it."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if (
            ".cache" in path.parts
            or path.suffix in (".lock", ".log", ".html", ".png", ".md")
            or path.name == ".lock"
        ):
            continue
        found[name] = hashlib.sha256(matter(path)).hexdigest()[:16]
    return found


def matter(path: Path) -> bytes:
    """Return a file's content without times and dates."""
    if path.name == "manifest.json":
        return b""  # of hashes of what is compared itself
    if path.suffix == ".safetensors":
        return b"".join(n.encode() + t.tobytes() for n, t in sorted(load_file(path).items()))
    if path.suffix in (".json", ".jsonl"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        return json.dumps([timeless(json.loads(line)) for line in lines]).encode()
    return path.read_bytes()


def timeless(value: object) -> object:
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def moment(target: Target, dice: Random, folder: Path) -> Callable[[Running], None]:
    """Return what waits for the moment of a kill."""
    chance = dice.random()
    wait = dice.uniform(0, target.seconds)
    soon = dice.uniform(0, 0.02)

    def at_random(process: Running) -> None:
        process.wait(wait)

    def near(process: Running) -> None:
        until = time.monotonic() + 4 * target.seconds
        while not process.ended() and time.monotonic() < until:
            if any(folder.glob(target.near)):
                break
            time.sleep(0.001)
        process.wait(soon)

    return near if target.near and chance < 0.8 else at_random


def case(index: int, seed: int, home: Path) -> Outcome:
    """Kill a run a few times, finish it, and compare."""
    dice = Random(f"{seed} kills {index}")
    every = targets()
    target = every[index % len(every)]
    whole = undisturbed(target.name, home)
    folder, logs, wrong, kills = home / "folder", home / "logs", [], []
    lay_out(target, folder)
    for _ in range(ROUNDS):
        words = target.again if (folder / "out" / "config.json").is_file() else target.first
        number = dice.choice(SIGNALS)
        wrong += orphans(folder) if target.program else []
        process = begin(target, words, folder, logs)
        moment(target, dice, folder)(process)
        if process.ended():
            break
        process.kill(number)
        kills.append(number.name)
        if not process.wait(120):
            wrong.append(f"still there after {number.name}")
            process.kill(signal.SIGKILL)
            process.wait(10)
        allowed = {-number, *ENDS} if target.program else {-number, 0, 128 + number}
        if process.code() not in allowed:
            wrong.append(f"exit code {process.code()} after {number.name}")
        if "Traceback" in (said := (logs / "err").read_text(errors="replace")):
            wrong += [f"traceback after {number.name}"] if target.program is None else []
    wrong += finish(target, folder, logs, whole)
    said = (logs / "err").read_text(errors="replace")[-1500:] if wrong else ""
    shutil.rmtree(folder, ignore_errors=True)
    shown = f"{target.name}: {', '.join(kills)}"
    return Outcome("finished", target.name, target.name, shown, wrong, said, len(kills))


def finish(target: Target, folder: Path, logs: Path, whole: dict[str, str]) -> list[str]:
    """Let the run end, and say in what it differs from an undisturbed one."""
    if stay := orphans(folder):
        return stay
    words = target.again if (folder / "out" / "config.json").is_file() else target.first
    process = begin(target, words, folder, logs)
    if not process.wait(600):
        process.kill(signal.SIGKILL)
        return ["it did not end"]
    if process.code():
        return [f"going on ended with {process.code()}"]
    found = remains(folder)
    differ = sorted(n for n in whole.keys() | found.keys() if whole.get(n) != found.get(n))
    wrong = [f"{n} is not as undisturbed" for n in differ[:5]]
    return wrong + [f"left behind: {p.name}" for p in folder.rglob("*.tmp")]


def orphans(folder: Path) -> list[str]:
    """Wait for the children of a killed parent: they must leave by themselves."""
    until = time.monotonic() + 90
    while time.monotonic() < until and any(works_in(folder)):
        time.sleep(0.2)
    stay = works_in(folder)
    for pid in stay:
        os.kill(pid, signal.SIGKILL)
    return [f"{len(stay)} processes are left"] if stay else []


def works_in(folder: Path) -> list[int]:
    """Return the processes whose current folder it is."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(entry / "cwd")) == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
