"""Result files: JSON, written in one move, with the machine and versions that made them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adlm.device import machine
from adlm.errors import UserError


def write_json(path: Path, values: Any) -> None:
    """Write values as JSON, whole or not at all."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write so that a reader sees the old file or the new one, never half of one."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it")
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def stamped(values: dict[str, Any], device: str, precision: str) -> dict[str, Any]:
    """The values, followed by where, when, how and by which version they were computed."""
    return {
        **values,
        "device": device,
        "precision": precision,
        "machine": machine(device),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit of the source tree that runs, with a + where it has changes; None outside one."""
    home = Path(__file__).parents[1]
    if not (home / ".git").exists():  # an installed package, perhaps inside somebody's repository
        return None
    words = ["git", "-C", str(home), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
