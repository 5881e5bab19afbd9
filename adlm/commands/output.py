"""The file of a command's result: tried before the work, kept during it, shown in any case."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from adlm.errors import UserError
from adlm.results import Result, read_json, try_place

R = TypeVar("R", bound=Result)


class Output:
    """Where a command's result goes; of several processes, only the `main` one writes it."""

    def __init__(self, path: Path, main: bool = True):
        if main:
            try_place(path)  # before hours of work
        self.path, self.main = path, main

    def earlier(self, kind: type[R]) -> R | None:
        """Read what an earlier run left, if it can be read."""
        try:
            return kind.from_json(read_json(self.path))
        except UserError:
            return None

    def keep(self, result: Result) -> None:
        """Save a part; where that fails the work goes on, for its figures are still printed."""
        with suppress(UserError):
            if self.main:
                result.save(self.path)

    def finish(self, result: Result, also: str = "") -> None:
        """Print the figures, then save them: a full disk costs the file, not the figures."""
        if not self.main:
            return
        print(result.text())
        result.save(self.path)
        print(f"written to {self.path}{also}")
