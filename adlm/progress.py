"""Progress on the terminal: a bar with rate and time left, or now and then a line in a log file."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

console = Console(stderr=True, highlight=False, markup=False)
LINE_SECONDS = 30.0  # between lines where the output is no terminal


class Bar:
    """A progress bar over `total` units, starting at `start`.

    Example:
        >>> with Bar("counting", 3, "steps") as bar:
        ...     bar.update(3, "loss 1.0")
    """

    def __init__(self, title: str, total: int, unit: str, start: int = 0, quiet: bool = False):
        self.title, self.total, self.unit, self.start = title, total, unit, start
        self.quiet = quiet
        self.live = console.is_terminal and not quiet
        self.began = self.last_line = time.monotonic()
        columns = [TextColumn("{task.description}"), BarColumn(bar_width=24)]
        columns += [TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[note]}")]
        self.progress = Progress(
            *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=False
        )
        self.task = self.progress.add_task(title, total=total or None, completed=start, note="")

    def __enter__(self) -> Bar:
        if self.live:
            self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self.live:
            self.progress.stop()

    def update(self, done: int, note: str = "") -> None:
        """Report that `done` units are finished."""
        self.progress.update(self.task, completed=done, note=note)
        now = time.monotonic()
        if self.live or self.quiet or now - self.last_line < LINE_SECONDS:
            return
        self.last_line = now
        rate = (done - self.start) / (now - self.began)
        left = f", {(self.total - done) / rate:.0f} s left" if self.total and rate > 0 else ""
        print(f"{self.title}: {done}/{self.total} {self.unit} {note}{left}", file=sys.stderr)
