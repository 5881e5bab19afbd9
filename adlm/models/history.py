"""The checkpoints of a run's folder: which there are, and which of them stay."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from itertools import count
from pathlib import Path

from adlm.models.manifest import MANIFEST


def steps(run: Path) -> list[Path]:
    """Return the whole checkpoints of a run, oldest first."""
    found = (run / "checkpoints").glob("step-*")
    return sorted(p for p in found if (p / MANIFEST).is_file())


def in_run(path: str | Path) -> bool:
    """Tell whether a path is a checkpoint of a run that can be resumed."""
    path = Path(path).expanduser().absolute()
    whole = (path / MANIFEST).is_file() and path.parent.name == "checkpoints"
    return whole and path.name.startswith("step-") and (run_of(path) / "config.json").is_file()


def run_of(path: Path) -> Path:
    """Return the run's folder of one of its checkpoints."""
    return (path if len(path.parts) > 1 else path.absolute()).parent.parent


def drop(run: Path, keep: int) -> None:
    """Remove all checkpoints of a run but the newest ones, each in one move for who reads it."""
    for old in steps(run)[:-keep]:
        gone = old.with_name(f".{old.name}.{uuid.uuid4().hex}.tmp")
        with suppress(OSError):
            old.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def set_aside(run: Path, step: int) -> list[Path]:
    """Rename the checkpoints after a step, from which the run goes another way."""
    made = []
    for later in steps(run):
        if int(later.name.removeprefix("step-")) > step:
            names = (later.with_name(f"aside-{number}-{later.name}") for number in count(1))
            made.append(later.rename(next(name for name in names if not name.exists())))
    return made


def sweep(run: Path) -> None:
    """Remove what a killed process left half-written."""
    for left in (run / "checkpoints").glob(".step-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)
