"""What the cache holds, and how it stays small.

sweep       before a store is made: what killed processes left. A draft without a finished part
            goes at once, one with finished parts, which would go on, after STALE days
keep_limit  after a store was made: the stores that were used least recently go until all of
            them have at most ADLM_CACHE_LIMIT GB; without that variable nothing goes by itself
prune       when a user asks
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from adlm.data.build import DRAFT, META, read_meta
from adlm.data.home import folder
from adlm.errors import UserError
from adlm.locks import lock

STALE = 3.0  # days after which the finished parts of a build that was never resumed are swept
DAY = 86400.0


@dataclass(frozen=True)
class Entry:
    """A thing in the cache."""

    path: Path
    kind: str  # tokens, unfinished, left (of a killed process), tokenizer or hash
    what: str  # for a person
    size: int  # bytes
    days: float  # since it was used

    def remove(self) -> bool:
        """Delete it, unless a process is making it; a reader sees all of it or nothing."""
        try:
            with lock(self.path.parent / f"{self.path.name.split('.')[0]}.lock", wait=False):
                gone = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.tmp")
                self.path.rename(gone)
                shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        except (Timeout, OSError):
            return False
        return True


def entries() -> list[Entry]:
    """List what the cache holds, the largest first."""
    home = folder()
    found = [_tokens(path) for path in _inside(home / "tokens") if path.is_dir()]
    for name, kind in (("bpe", "tokenizer"), ("hashes", "hash")):
        found += [_file(path, kind) for path in _inside(home / name) if path.suffix == ".json"]
    return sorted(found, key=lambda entry: -entry.size)


def _inside(home: Path) -> Iterator[Path]:
    return iter(sorted(home.iterdir())) if home.is_dir() else iter(())


def _tokens(path: Path) -> Entry:
    kind, note = {"": ("tokens", META), ".part": ("unfinished", DRAFT)}.get(
        path.suffix, ("left", "")
    )
    what, used = "of a killed process", path.stat().st_mtime
    try:
        meta = read_meta(path / note)
        what = f"{meta.source} ({meta.split}), {meta.tokens:,} tokens"
        used = (path / note).stat().st_mtime
    except (OSError, ValueError):
        kind = "left"
    size = sum(file.stat().st_size for file in path.iterdir())
    return Entry(path, kind, what, size, (time.time() - used) / DAY)


def _file(path: Path, kind: str) -> Entry:
    stat = path.stat()
    return Entry(path, kind, path.stem[:16], stat.st_size, (time.time() - stat.st_mtime) / DAY)


def sweep(own: Path) -> None:
    """Remove what killed processes left, but for what `own`, whose lock is held, goes on with."""
    for path in _inside(own.parent):
        if path.suffix in (".part", ".tmp") and path.name.split(".")[0] != own.name:
            entry = _tokens(path)
            if entry.kind == "left" or entry.days > STALE:
                entry.remove()
        elif path.suffix == ".tmp":
            shutil.rmtree(path, ignore_errors=True)


def limit() -> float | None:
    """Return the most bytes that stores may have together: ADLM_CACHE_LIMIT, in GB."""
    said = os.environ.get("ADLM_CACHE_LIMIT")
    if not said:
        return None
    try:
        value = float(said)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise UserError(f"ADLM_CACHE_LIMIT must be a number of GB, 0 or more, found '{said}'")
    return value * 1e9


def keep_limit(own: Path) -> None:
    """Remove the stores used least recently, never `own`, until the limit is kept."""
    if (most := limit()) is not None:
        remove_beyond(most, [entry for entry in entries() if entry.path != own])


def remove_beyond(most: float, some: list[Entry]) -> list[Entry]:
    """Remove those of some stores that were used least recently until `most` bytes are kept."""
    size, gone = sum(entry.size for entry in entries()), []
    for entry in sorted(some, key=lambda entry: -entry.days):
        if size > most and entry.kind == "tokens" and entry.remove():
            gone.append(entry)
            size -= entry.size
    return gone


def prune(older: float, most: float | None = None) -> list[Entry]:
    """Remove what killed processes left and what was not used for `older` days; return it."""
    old = [e for e in entries() if e.kind in ("left", "unfinished") or e.days > older]
    gone = [entry for entry in old if entry.remove()]
    return gone if most is None else gone + remove_beyond(most, entries())
