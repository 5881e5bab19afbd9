"""Readers of stored files, fed with spoiled bytes; what reaches new lines is spoiled further.

A small coverage-guided search: every input that runs a line of adlm which no input ran before joins
the pool. A reader may return, raise UserError, or OSError, of which the command line makes a
sentence as well; anything else is a fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from adlm.config import Config, from_dict
from adlm.data import files
from adlm.data.records import read_prompts
from adlm.data.vocab import Vocab, file_vocab
from adlm.errors import UserError
from adlm.eval.programs import open_tasks
from adlm.eval.report import of_file
from adlm.models import checkpoint
from adlm.models.foreign.source import open_source
from adlm.train.log import read as read_log
from adlm.values import read_plain
from attack import child, place
from attack.campaign import Outcome
from attack.scenes import CHECKPOINT
from attack.spoil import sign, spoil

ROUNDS = 100  # inputs of a case
MINE = str(place.ROOT / "adlm")
STEP = "run-adlm/checkpoints/step-00000002"


def whole(folder: Path) -> object:
    """Read all of a checkpoint, as using and resuming do."""
    saved = checkpoint.load(folder)
    return saved.weights(), saved.counts(), saved.lengths(), saved.training()


def parts(path: Path) -> object:
    return sum(len(text) for text in files.read(path))


Reader = tuple[list[str], Callable[[Path], object]]  # files that are spoiled, reader of the folder


@cache
def readers() -> dict[str, Reader]:
    """Return what reads each kind of file; the folder is a copy of the place's."""
    corpora = ("corpus.jsonl", "corpus.csv", "corpus.parquet", "corpus.txt.gz", "corpus.txt")
    found: dict[str, Reader] = {
        name: ([name], lambda home, name=name: parts(home / name)) for name in corpora
    }
    stored = [f"{STEP}/{name}" for name in CHECKPOINT]
    return found | {
        "checkpoint": (stored, lambda home: whole(home / STEP)),
        "vocab": ([f"{STEP}/vocab.json", f"{STEP}/tokenizer.json"], lambda h: Vocab.load(h / STEP)),
        "tokenizer": (["tokenizer.json"], lambda home: file_vocab(home / "tokenizer.json")),
        "config": (
            ["run-adlm/config.json"],
            lambda home: from_dict(read_plain(home / "run-adlm/config.json"), Config),
        ),
        "metrics": (["run-adlm/metrics.jsonl"], lambda h: read_log(h / "run-adlm/metrics.jsonl")),
        "result": (["likelihood.json"], lambda home: of_file(home / "likelihood.json")),
        "study": (["study.json"], lambda home: of_file(home / "study.json")),
        "prompts": (["prompts.jsonl"], lambda home: read_prompts(home / "prompts.jsonl")),
        "tasks": (["tasks.jsonl"], lambda home: open_tasks(str(home / "tasks.jsonl"), None)),
        "foreign": (
            ["exported/config.json", "exported/model.safetensors"],
            lambda home: open_source(str(home / "exported")),
        ),
    }


NEEDS = (
    "run-adlm", "exported", "tokenizer.json", "likelihood.json", "study.json", "prompts.jsonl",
    "tasks.jsonl", "corpus.jsonl", "corpus.csv", "corpus.parquet", "corpus.txt.gz", "corpus.txt",
)  # fmt: skip


def lines_of(work: Callable[[], object]) -> tuple[set[tuple[str, int]], BaseException | None]:
    """Return the lines of adlm that a call runs, and what it raises."""
    seen: set[tuple[str, int]] = set()

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(MINE) else None

    sys.settrace(enter)
    try:
        work()
        return seen, None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return seen, error
    finally:
        sys.settrace(None)


def search(name: str, folder: Path, dice: Random) -> int:
    """Spoil the files of one reader again and again; print each fault, and how far it came."""
    spoiled, read = readers()[name]
    given = {n: (folder / n).read_bytes() for n in spoiled if (folder / n).is_file()}
    seen, _ = lines_of(lambda: read(folder))
    pool, refused = [given], 0
    for _ in range(ROUNDS):
        restore(folder, {**given, **dice.choice(pool)})
        path = folder / dice.choice(list(given))
        how = spoil(path, dice)
        if path.parent.name.startswith("step-") and dice.random() < 0.9:
            sign(path.parent)
        print(f"next {path.name}, {how}", flush=True)  # the last word where the process dies
        new, error = lines_of(lambda: read(folder))
        refused += isinstance(error, UserError | OSError)
        if error is not None and not isinstance(error, UserError | OSError):
            print(f"wrong {path.name}, {how}: {type(error).__name__}: {str(error)[:120]!r}")
        if new - seen:
            seen |= new
            pool.append({n: (folder / n).read_bytes() for n in given if (folder / n).is_file()})
    print(f"{name}: {ROUNDS} inputs, {refused} refused, {len(seen)} lines, {len(pool)} in the pool")
    return 0


def case(index: int, seed: int, home: Path) -> Outcome:
    """Search in a forked process, so that an abort is seen."""
    name = list(readers())[index % len(readers())]
    folder = home / "folder"
    place.copy(NEEDS, folder)
    work = partial(search, name, folder, Random(f"{seed} readers {index}"))
    env = place.environment(folder)
    ended = child.start([], folder, home / "logs", env, work=work).wait(300)
    lines = ended.out.splitlines() or [""]
    wrong = sorted({line.removeprefix("wrong ") for line in lines if line.startswith("wrong ")})
    if ended.code:
        last = lines[-1].removeprefix("next ")
        wrong.append(f"the process ended with {ended.code} at {last}")
    shown = lines[-1] if not ended.code else name
    return Outcome("done", name, name, shown, wrong, ended.err[-800:], ROUNDS)


def restore(folder: Path, given: dict[str, bytes]) -> None:
    """Put the files back; where something else has the name, it goes."""
    for name, data in given.items():
        path = folder / name
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            path.rmdir()
        path.write_bytes(data)
