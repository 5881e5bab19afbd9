"""Metrics as JSON lines, one flushed line at a time; TensorBoard or any other logger beside it.

A logger is a function that is called with every record and the run's folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from adlm.errors import UserError, need
from adlm.progress import console
from adlm.registry import bring
from adlm.values import plain, to_text

Metrics = Mapping[str, int | float]  # a line of metrics.jsonl; every one has a `step`
Logger = Callable[[dict[str, int | float], Path], object]


class Log:
    """metrics.jsonl of a run. After a resume it goes on where the checkpoint was.

    A logger that raises is said and not called again; the training goes on.
    """

    def __init__(self, run: Path, step: int, loggers: Sequence[Logger] = ()):
        self.run, self.loggers = run, list(loggers)
        self.path = run / "metrics.jsonl"
        keep = [r for r in read(self.path) if r["step"] <= step]
        part = self.path.with_suffix(".tmp")
        with self.named():
            part.write_text("".join(to_text(r) + "\n" for r in keep), encoding="utf-8")
            os.replace(part, self.path)
            self.file = self.path.open("a", encoding="utf-8")

    def write(self, record: Metrics) -> None:
        """Append one record; it must have a step."""
        with self.named():
            self.file.write(to_text(record) + "\n")
            self.file.flush()
        for logger in list(self.loggers):
            try:
                logger(dict(record), self.run)
            except (Exception, SystemExit) as error:  # whatever a user's function raises
                self.loggers.remove(logger)
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                console.print(
                    f"a logger raised {reason}; the run goes on without it", soft_wrap=True
                )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let a disk that is full or read-only be told with the file's name."""
        try:
            yield
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror or error}"
            raise UserError(f"{reason}; checkpoints are untouched, and --resume goes on") from None

    def close(self) -> None:
        with suppress(OSError):  # what could not be written was told
            self.file.close()
        for logger in self.loggers:
            if close := getattr(logger, "close", None):
                close()


def read(path: Path) -> list[Metrics]:
    """Return the whole records of a metrics file; a damaged line is left out."""
    records: list[Metrics] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = plain(line.encode(), path)
            except UserError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                records.append(record)
    return records


class TensorBoard:
    """The logger that writes TensorBoard events into the run's folder."""

    def __init__(self, run: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise need("tensorboard", "tensorboard", "train.tensorboard") from None
        self.writer = SummaryWriter(str(run / "tensorboard"))

    def __call__(self, record: Metrics, run: Path) -> None:
        for key, value in record.items():
            if key != "step":
                self.writer.add_scalar(key, value, record["step"])

    def close(self) -> None:
        self.writer.close()


def find_logger(name: str) -> Logger:
    """Return the function module:name, given by the user."""
    logger = bring("logger", name)
    if not callable(logger):
        raise UserError(f"the logger '{name}' must be a function, found {logger!r}")
    return logger
