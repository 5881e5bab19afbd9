"""Faults of the machine: a full disk at every write, no permission, a jumping clock, no memory.

What must hold: one sentence and a plain exit code, nothing half-written, and nothing lost: the same
command goes on afterwards to what an undisturbed one leaves.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from adlm import cli
from attack import child, place, shim
from attack.campaign import Outcome
from attack.child import Ended
from attack.kills import remains

CACHED = [
    "--data.tokenizer",
    "bpe:300",
    "--train.steps",
    "3",
    "--train.save_every",
    "1",
    "--train.keep",
    "2",
]
TRAIN = ["train", "laptop-adlm", *place.SMALL, *CACHED, "--out", "out"]
LIKELY = ["eval", "likelihood", "run-mdlm", "--limit", "4", "--batch", "4", "--draws", "1"]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # name -> words, and what they need
    "train": (TRAIN, ["corpus.txt"]),
    "sample": (["sample", "run-mdlm", "--steps", "2", "--json", "out.jsonl"], ["run-mdlm"]),
    "eval likelihood": (LIKELY, ["run-mdlm", "corpus.txt"]),
    "report": (["report", "likelihood.json", "--out", "out.html"], ["likelihood.json"]),
    "export": (["export", "run-mdlm", "--to", "out"], ["run-mdlm"]),
    "import": (["import", "exported", "--out", "out"], ["exported"]),
}
JUMPS = (-400 * 86400, 4000 * 86400)
SHORT_OF = (0, 1, 2, 4, 8, 16, 32, 64)  # MiB beyond what the process has
CLOSED = {  # folders that may not be written
    "train": (".", "cache"),
    "sample": (".",),
    "eval likelihood": (".", "run-mdlm", "cache"),
    "report": (".",),
    "export": (".",),
    "import": (".",),
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong in one command."""

    kind: str
    command: str
    number: int = 0  # of the write, or MiB, or the jump
    where: str = ""


def faults() -> list[Fault]:
    """Return all of them: a short command's every write, and the others."""
    found = []
    for name in COMMANDS:
        found += [Fault("read-only", name, where=where) for where in CLOSED[name]]
        found += [Fault("memory", name, mib) for mib in SHORT_OF]
    found += [Fault("clock", name, jump) for name in ("train", "eval likelihood") for jump in JUMPS]
    for name in COMMANDS:
        found += [Fault("disk full", name, n + 1) for n in range(writes()[name])]
    return found


def run(command: str, folder: Path, logs: Path, **how: object) -> Ended:
    return child.start(COMMANDS[command][0], folder, logs, place.environment(folder), **how).wait(
        60
    )  # type: ignore[arg-type]


@cache
def writes() -> dict[str, int]:
    """Count the writes of each command undisturbed."""
    kept = place.HOME / "undisturbed" / f"writes-{place.source()}.json"
    if not kept.is_file():
        found, home = {}, place.HOME / f"count-{os.getpid()}"
        for name, (words, needs) in COMMANDS.items():
            place.copy(needs, home / "folder")
            work = partial(counted, words, home)
            run(name, home / "folder", home / "logs", work=work)
            found[name] = int((home / "count").read_text())
        shutil.rmtree(home)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return json.loads(kept.read_text())


def counted(words: list[str], home: Path) -> int:
    """Run a command with the shim counting."""
    shim.arm(home / "folder", 0)
    code = cli.main(words)
    (home / "count").write_text(str(shim.count()))
    return code


@cache
def whole(command: str, home: Path) -> dict[str, str]:
    """Return what the command leaves undisturbed."""
    folder = home / "undisturbed"
    place.copy(COMMANDS[command][1], folder)
    run(command, folder, home / "logs")
    return remains(folder)


def before(fault: Fault, folder: Path) -> None:
    """Bring about the fault, in the child."""
    if fault.kind == "disk full":
        shim.arm(folder, fault.number)
    elif fault.kind == "clock":
        shim.arm(folder, 3, jump=fault.number)
    elif fault.kind == "memory":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = size + (fault.number << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    elif fault.kind == "read-only":
        powerless()


def powerless() -> None:
    """Give up the right of root to write anywhere: permissions count for this process too."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    ctypes.CDLL(None).capset(header, data)


def case(index: int, seed: int, home: Path) -> Outcome:
    """Run a command with a fault, judge it, and run it again without."""
    fault = faults()[index]
    needs = COMMANDS[fault.command][1]
    folder, logs = home / "folder", home / "logs"
    open_again(folder)
    place.copy(needs, folder)
    listed = place.listing(folder)
    if fault.kind == "read-only":
        (folder / fault.where).mkdir(exist_ok=True)
        listed = place.listing(folder)
        close(folder / fault.where)
    ended = run(fault.command, folder, logs, before=partial(before, fault, folder))
    open_again(folder)
    wrong = judge(ended)
    if ended.code == 2 and fault.kind == "read-only":
        after = {n for n in place.listing(folder) if not n.endswith(".lock")}
        wrong += [f"{n} was written" for n in sorted(after - listed.keys())]
    parts = [p for p in folder.rglob("*.tmp") if folder / "cache" not in p.parents]
    wrong += [f"left behind: {p.name}" for p in parts]  # the cache keeps its parts, to go on
    if ended.code:
        wrong += afterwards(fault.command, folder, home)
    shown = f"{fault.command}: {fault.kind} {fault.where or fault.number}"
    code = "done" if ended.code == 0 else "one sentence" if ended.sentence else "failed"
    said = ended.err[-1500:] if wrong else ""
    return Outcome(code, fault.kind, fault.command, shown, wrong, said)


def judge(ended: Ended) -> list[str]:
    """Say what is wrong with how it ended."""
    wrong = []
    if "Traceback (most recent call last)" in ended.err:
        wrong.append("traceback")
    if ended.code < 0:
        wrong.append(f"ended by signal {-ended.code}")
    if ended.code > 0 and not ended.sentence:
        wrong.append(f"code {ended.code} without a sentence")
    if ended.late:
        wrong.append("it did not end")
    return wrong


def afterwards(command: str, folder: Path, home: Path) -> list[str]:
    """Run it again without the fault: it must leave what an undisturbed one does."""
    words = COMMANDS[command][0]
    again = (
        ["--resume"] if (folder / "out" / "config.json").is_file() and words[0] == "train" else []
    )
    env = place.environment(folder)
    ended = child.start([*words, *again], folder, home / "logs", env).wait(120)
    if ended.code:
        return [f"afterwards it ends with {ended.code}: {ended.sentence}"]
    found, wanted = remains(folder), whole(command, home)
    differ = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
    return [f"afterwards {n} is not as undisturbed" for n in differ[:3]]


def close(folder: Path) -> None:
    """Let nobody write into a folder and those in it."""
    for path in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
        path.chmod(0o555)


def open_again(folder: Path) -> None:
    if folder.is_dir():
        folder.chmod(0o755)
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
