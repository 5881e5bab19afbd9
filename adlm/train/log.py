"""Metrics as JSON lines, one flushed line at a time; TensorBoard beside it where asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from adlm.errors import need


class Log:
    """metrics.jsonl of a run. After a resume it goes on where the checkpoint was."""

    def __init__(self, run: Path, step: int, tensorboard: bool):
        self.path = run / "metrics.jsonl"
        keep = [r for r in read(self.path) if r["step"] <= step]
        part = self.path.with_suffix(".tmp")
        part.write_text("".join(json.dumps(r) + "\n" for r in keep), encoding="utf-8")
        os.replace(part, self.path)
        self.file = self.path.open("a", encoding="utf-8")
        self.board = _board(run) if tensorboard else None

    def write(self, record: dict[str, Any]) -> None:
        """Append one record; it must have a step."""
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()
        if self.board is not None:
            for key, value in record.items():
                if key != "step":
                    self.board.add_scalar(key, value, record["step"])

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The whole records of a metrics file; a damaged line is left out."""
    records = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                records.append(record)
    return records


def _board(run: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise need("tensorboard", "tensorboard", "train.tensorboard") from None
    return SummaryWriter(str(run / "tensorboard"))
