"""Hashes of files' contents. That of a large file is remembered while the file stays as it is."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from functools import lru_cache
from pathlib import Path

import msgspec

from adlm.data.home import folder

LARGE = 1 << 28  # bytes: reading so much takes a second or so


class Known(msgspec.Struct):
    """A file's state, and the hash that its content had then."""

    state: tuple[int, int, int, int]  # size, modified, changed (no user can set that), inode
    digest: str


def fingerprint(paths: list[Path], *settings: str) -> str:
    """Hash the files' contents and the settings that decide how they are read."""
    digest = hashlib.sha256(repr(settings).encode())
    for path in paths:
        digest.update("".join(path.suffixes).encode())  # the ending decides how a file is read
        digest.update(_digest(path, _state(path.stat())))
    return digest.hexdigest()


def _state(stat: os.stat_result) -> tuple[int, int, int, int]:
    return (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@lru_cache
def _digest(path: Path, state: tuple[int, int, int, int]) -> bytes:
    """Hash a file; what this or another process knows of a large one is not done again."""
    if state[0] < LARGE:
        return _sha256(path)
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    note = folder() / "hashes" / f"{name}.json"
    with contextlib.suppress(OSError, ValueError):
        known = msgspec.json.decode(note.read_bytes(), type=Known)
        if known.state == state:
            return bytes.fromhex(known.digest)
    found = _sha256(path)
    with contextlib.suppress(OSError):  # a cache that cannot be written
        note.parent.mkdir(parents=True, exist_ok=True)
        part = note.with_suffix(f".{uuid.uuid4().hex}.tmp")
        part.write_bytes(msgspec.json.encode(Known(state, found.hex())))
        part.replace(note)
    return found


def _sha256(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
