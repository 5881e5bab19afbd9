"""Result files: JSON, written in one move, with the machine and versions that made them.

A result is a frozen dataclass. Its fields are the fields of its file, `from_json` reads the file
back with every type checked, and `section` is what the terminal, the report page and the docs show.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from adlm.device import machine
from adlm.errors import UserError
from adlm.values import read_plain, to_text
from adlm.viz.page import Section

Json = dict[str, Any]  # the object of a JSON file


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Where, how, when and by which version something was computed."""

    device: str = ""
    precision: str = ""
    machine: Json = field(default_factory=dict)  # of `device.Machine`, more or less by version
    date: str | None = None
    commit: str | None = None
    asked: str | None = None  # the command line, where it was one

    @classmethod
    def now(cls, device: str, precision: str) -> Stamp:
        about = vars(machine(device))
        return Stamp(
            device=device,
            precision=precision,
            machine={k: v for k, v in about.items() if k != "limits" or v},
            date=datetime.now(UTC).date().isoformat(),
            commit=commit(),
            asked=asked(sys.argv),
        )


def asked(words: list[str]) -> str | None:
    """Return the command line of adlm or of a script, with folders as seen from here.

    Of a place outside only the last name is told, not where this machine has it.

    Example:
        >>> asked(["/usr/bin/adlm", "eval", "likelihood", "runs/my run"])
        "adlm eval likelihood 'runs/my run'"
        >>> asked(["docs/follow.py", "--folder", "/tmp/elsewhere/walk"])
        'python docs/follow.py --folder walk'
        >>> asked(["/usr/lib/pytest/__main__.py"])
    """
    here = f"{Path.cwd()}{os.sep}"
    script, *rest = (word.replace(here, "") for word in words)
    rest = [Path(word).name if Path(word).is_absolute() else word for word in rest]
    if Path(script).name == "adlm" or Path(script).parts[-2:] == ("adlm", "__main__.py"):
        return shlex.join(["adlm", *rest])
    known = script.startswith(("benchmarks/", "docs/"))
    return shlex.join(["python", script, *rest]) if known else None


@dataclass(frozen=True, kw_only=True)
class Result(Stamp):
    """What a command measured, and where, when and by which version.

    A subclass names its `command` and adds its figures as fields, with a default for what files of
    older versions lack; `@register("result", command)` lets the report find it.

    Example:
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Count(Result):
        ...     command: ClassVar[str] = "count"
        ...     tokens: int
        >>> Count.from_json(Count(tokens=3).to_json()) == Count(tokens=3)
        True
        >>> Count.from_json({"tokens": "three"}, "count.json")
        Traceback (most recent call last):
        adlm.errors.UserError: count.json is not a result of 'count': Expected `int`, got `str` ...
    """

    command: ClassVar[str]
    version: ClassVar[int] = 1  # of the file's form

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the file; a number that is not finite is null."""
        plain = msgspec.json.decode(msgspec.json.encode(self))
        return {"command": self.command, "version": self.version, **plain}

    @classmethod
    def from_json(cls, values: dict[str, Any], where: str | Path = "the result") -> Self:
        """Return the result that a file holds, or raise UserError that names it by `where`."""
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UserError(f"{where} is not a result of '{cls.command}': {error}") from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the result in a file."""
        return cls.from_json(read_json(path), path)

    def stamped(self, device: str, precision: str) -> Self:
        """Return the same with this machine, date and commit."""
        return replace(self, **vars(Stamp.now(device, precision)))

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_json(path, self.to_json())

    def section(self, name: str) -> Section:
        """Return what is shown of it; `name` is the file's, without .json."""
        raise NotImplementedError

    def text(self) -> str:
        """Return what the terminal shows of it."""
        return self.section("").text()


def read_json(path: Path) -> Json:
    """Return the object in a JSON file, or raise UserError."""
    found = read_plain(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} is not a result file: it holds no object")
    return found


def write_json(path: Path, values: Any) -> None:
    """Write values as JSON, whole or not at all."""
    write_text(path, to_text(values, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write so that a reader sees the old file or the new one, never half of one."""
    write_texts({path: text})


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write several files, each whole, and none of them unless all can be.

    What is no file, as /dev/null or a pipe, is written to: a file in its place would end it.
    """
    parts: dict[Path, Path] = {}
    path = Path()
    try:
        for path in texts:
            if path.is_dir():
                raise UserError(f"{path} is a folder: name a file in it")
            if not special(path):
                parts[path] = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
                write_part(parts[path], texts[path])
        for path in texts.keys() - parts.keys():
            path.write_text(texts[path], encoding="utf-8")
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def write_part(part: Path, text: str) -> None:
    """Write a file that is to be renamed, down to the disk."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def special(path: Path) -> bool:
    """Is there something at the path that is neither a file nor a folder?"""
    return path.exists() and not (path.is_file() or path.is_dir())


def try_place(path: Path) -> None:
    """Raise UserError unless a file can be written there; nothing is left behind."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it")
    if special(path):
        return
    made = [folder for folder in path.parents if not folder.exists()]  # innermost first
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tried = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        tried.write_bytes(b"")
        tried.unlink()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def commit() -> str | None:
    """Return the commit of the source tree, with a + where it has changes; None outside one."""
    home = Path(__file__).parents[1]
    if not (home / ".git").exists():  # an installed package, perhaps inside somebody's repository
        return None
    words = ["git", "-C", str(home), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
