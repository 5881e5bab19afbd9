"""The manifest of a checkpoint: manifest.json has the size and sha256 of each file beside it.

Anyone can write a manifest, so it is data to be checked: its types, and names of plain files only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from adlm.errors import UserError
from adlm.values import read_plain, to_text

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class FileRecord:
    """What the manifest says of a file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        with path.open("rb") as file:
            return cls(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())

    def verify(self, path: Path) -> None:
        """Raise UserError unless the file is the one that was recorded."""
        if not path.is_file():
            raise UserError(f"the checkpoint is incomplete: {path} is missing")
        size = path.stat().st_size
        if size != self.bytes:
            raise UserError(f"{path} is truncated: it has {size} bytes instead of {self.bytes}")
        if FileRecord.of(path) != self:
            raise UserError(f"{path} is not the file that was saved: its sha256 differs")


@dataclass(frozen=True)
class Manifest:
    """The files of a folder."""

    format: int
    files: dict[str, FileRecord]

    @classmethod
    def of(cls, folder: Path, unlisted: Collection[str] = ()) -> Manifest:
        """Record all files of a folder but the `unlisted`."""
        listed = [p for p in sorted(folder.iterdir()) if p.name not in unlisted]
        return cls(FORMAT, {p.name: FileRecord.of(p) for p in listed})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check a folder's manifest; the files themselves are not read."""
        path = folder / MANIFEST
        values = read_plain(path)
        known = values.get("format") if isinstance(values, dict) else None
        if known not in (None, FORMAT):
            raise UserError(f"{folder} has checkpoint format {known}; this version reads {FORMAT}")
        try:
            made = msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UserError(f"{path} is damaged ({error})") from None
        for name in made.files:
            if name in ("", ".", "..") or set(name) & set("/\\\0"):
                raise UserError(f"{path} is damaged: {name[:60]!r} is no file's name")
        return made

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(to_text(asdict(self), indent=2), encoding="utf-8")
