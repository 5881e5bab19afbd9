"""Spoil a valid file: bytes at random, or the meaning of its format (JSON, lines, safetensors)."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 16.0, 1.5, -0.0, 1e308, 1e-320, 2**31, 2**63, -(2**63),
    10**18, 10**30, "", "x", "5", "²", "\x00", "\ud800", "../../x", "/etc/passwd", "os:system",
    "a" * 5000, "\x1b[31m", "nan",
    [], {}, [[]], [1], {"": 0}, [None], {"a": {"b": []}}, float("nan"),
    float("inf"),
)  # fmt: skip


def as_json(value: Any) -> bytes:
    """Return JSON text; NaN and lone surrogates stay in it, as strangers may write them."""
    return json.dumps(value, ensure_ascii=True).encode()


def spoil(path: Path, dice: Random) -> str:
    """Change a file in one way; return which."""
    ways: list[Callable[[Path, Random], object]] = [bytes_flipped, cut, emptied, doubled, repeated]
    ways += [replaced]
    if path.suffix == ".json":
        ways += [json_value] * 16 + [brackets]
    if path.suffix in (".jsonl", ".csv", ".txt"):
        ways += [line_spoiled] * 6
    if path.suffix == ".jsonl":
        ways += [json_line] * 6
    if path.suffix == ".safetensors":
        ways += [header] * 8 + [numbers] * 3
    way = dice.choice(ways)
    try:
        way(path, dice)
    except (ValueError, IndexError, RecursionError, struct.error):  # it was spoiled before
        bytes_flipped(path, dice)
    return way.__name__


def bytes_flipped(path: Path, dice: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 2, 8, 64))):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data)


def cut(path: Path, dice: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(len(data) + 1)])


def emptied(path: Path, dice: Random) -> None:
    path.write_bytes(
        dice.choice((b"", b"\0" * 100, b"\xff\xfe", b"\n" * 50, b"null", b"\x80\x04."))
    )


def doubled(path: Path, dice: Random) -> None:
    path.write_bytes(path.read_bytes() * 2)


def repeated(path: Path, dice: Random) -> None:
    data = path.read_bytes()
    a, b = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    path.write_bytes(data[:b] + data[a:b] * dice.choice((1, 3, 50)) + data[b:])


def replaced(path: Path, dice: Random) -> None:
    """Something else of that name: nothing, a folder, a link to itself, a pipe without a writer."""
    path.unlink()
    kind = dice.choice(("nothing", "folder", "loop", "device"))
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to(os.devnull)


def brackets(path: Path, dice: Random) -> None:
    path.write_bytes(dice.choice((b"[", b'{"a":')) * dice.choice((1000, 100_000)))


def json_value(path: Path, dice: Random) -> None:
    path.write_bytes(as_json(changed(json.loads(path.read_bytes()), dice)))


def json_line(path: Path, dice: Random) -> None:
    lines = path.read_text().splitlines()
    at = dice.randrange(len(lines))
    lines[at] = as_json(changed(json.loads(lines[at]), dice)).decode()
    path.write_text("\n".join(lines))


def line_spoiled(path: Path, dice: Random) -> None:
    lines = path.read_bytes().splitlines()
    at = dice.randrange(len(lines))
    junk = (b"", b"\0", b"\xff", b'"', b"{", b"1e999", b"\x1b[2J", b"x" * 100_000, b"\xef\xbb\xbf")
    lines[at] = dice.choice(junk)
    path.write_bytes(b"\n".join(lines[: dice.choice((1, len(lines)))]))


def changed(value: Any, dice: Random) -> Any:
    """Return JSON with one value, name or length inside it changed."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        name = dice.choice(list(value))
        if dice.random() < 0.1:
            return {k: v for k, v in value.items() if k != name}
        if dice.random() < 0.05:
            return {**value, dice.choice(("", "x", "../x", "__class__", name * 2)): value[name]}
        return {**value, name: changed(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        if dice.random() < 0.2:
            return value[:at]
        return [*value[:at], changed(value[at], dice), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and dice.random() < 0.4:
        return dice.choice((-value, value + 1, value * 1000, value / 2, str(value), [value]))
    return dice.choice(VALUES)


def header(path: Path, dice: Random) -> None:
    """Change what a safetensors file says of its tensors."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    told = changed(json.loads(data[8 : 8 + size]), dice)
    text = as_json(told)
    said = dice.choice((len(text), len(text), len(text), len(text) + 1, 2**63, 0))
    path.write_bytes(struct.pack("<Q", said) + text + data[8 + size :])


def numbers(path: Path, dice: Random) -> None:
    """Put NaN, Inf or huge numbers into the tensors."""
    data = bytearray(path.read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    value = dice.choice((float("nan"), float("inf"), -float("inf"), 3e38, 1e-45))
    for _ in range(dice.choice((1, 100))):
        at = 8 + size + 4 * dice.randrange((len(data) - 8 - size) // 4)
        data[at : at + 4] = struct.pack("<f", value)
    path.write_bytes(data)


def sign(folder: Path) -> None:
    """Make a checkpoint's manifest fit its files again, as a stranger would."""
    from adlm.models.manifest import MANIFEST, FileRecord

    path = folder / MANIFEST
    try:
        told = json.loads(path.read_bytes())
        for name in told["files"]:
            if (folder / name).is_file():
                told["files"][name] = vars(FileRecord.of(folder / name))
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return
    path.write_text(json.dumps(told))
