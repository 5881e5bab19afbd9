"""Progress on the terminal: a bar with rate and time left, or now and then a line in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from adlm.visible import visible


class Screen(Console):
    """A console on which text from elsewhere cannot steer the terminal."""

    def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
        for part in super().render(*args, **options):
            yield part if part.control else Segment(visible(part.text), part.style)


console = Screen(stderr=True, highlight=False, markup=False)
LINE_SECONDS = 30.0  # between lines where the output is no terminal
SETTLE_SECONDS = 5.0  # of progress, and so many updates, before a time left is said
SETTLE_UPDATES = 3  # more where progress comes in lumps
POINTS = 256  # of progress that are remembered
EARLY, STALL = 8, 10.0  # updates in which one that takes so many times longer is still the start
STALLS = 2  # that are left out later: what comes more often will come again


class Pace:
    """Seconds left, from recent progress; None until that means something.

    What comes before the first progress (reading data, filling caches) says nothing about the rest
    and is left out, and so are stalls soon after (compiling for a second time) and a few later ones
    (compiling what validates). The rate is that of the later half of what was seen since (at least
    `settle` updates), so that a change of speed is followed and a pause hardly shows.

    Example:
        >>> pace = Pace(total=100)
        >>> for now, done in ((0, 0), (60, 1), (62, 2), (64, 3), (66, 4)):
        ...     pace.see(now, done)
        >>> pace.left()
        192.0
    """

    def __init__(self, total: float, start: float = 0, settle: int = SETTLE_UPDATES):
        self.total, self.start, self.settle = total, start, settle
        self.seen: list[tuple[float, float]] = []  # (seconds, done) whenever done has grown
        self.now, self.stalls = 0.0, 0

    def see(self, now: float, done: float) -> None:
        """Take note that `done` units are finished at the time `now`."""
        self.now = now
        if done > (self.seen[-1][1] if self.seen else self.start):
            self.leave_out(now, done)
            self.seen.append((now, done))
        if len(self.seen) > POINTS:
            self.seen = [self.seen[0], *self.seen[2:-1:2], self.seen[-1]]

    def left(self) -> float | None:
        """Return the seconds until all is done, or None."""
        seen = self.started()
        if len(seen) <= self.settle:
            return None
        (first, _), (last, done) = seen[0], seen[-1]
        if last - first < SETTLE_SECONDS:
            return None
        half = (first + last) / 2
        enough = seen[: -self.settle]  # updates after it
        began, before = next(s for s in reversed(enough) if s[0] <= half or s is enough[0])
        rate = (done - before) / (last - began)
        return max(0.0, (self.total - done) / rate - (self.now - last))

    def leave_out(self, now: float, done: float) -> None:
        """Move what was seen up to the end of a stall, if this progress came after one."""
        if len(self.seen) <= EARLY or self.stalls == STALLS:
            return
        last, before = self.seen[-1]
        each = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(self.seen[-EARLY:])]
        usual = median(each) * (done - before)
        if now - last > STALL * usual:
            self.seen = [(t + now - last - usual, d) for t, d in self.seen]
            self.stalls += 1

    def started(self) -> list[tuple[float, float]]:
        """Return the progress that was seen, without stalls of the start."""
        last = self.seen[-1][0] if self.seen else 0.0
        for i in reversed(range(1, min(EARLY, len(self.seen) - 1))):
            took = self.seen[i][0] - self.seen[i - 1][0]
            usual = (last - self.seen[i][0]) / (len(self.seen) - 1 - i)
            if took > STALL * usual:
                return self.seen[i:]
        return self.seen


def duration(seconds: float) -> str:
    """Write a time for a person.

    Example:
        >>> duration(40), duration(90), duration(7200), duration(10 * 86400)
        ('40 seconds', '1.5 minutes', '2.0 hours', '10.0 days')
    """
    for unit, length in (("days", 86400 * 2), ("hours", 3600), ("minutes", 60)):
        if seconds >= length:
            return f"{seconds / min(length, 86400):,.1f} {unit}"
    return f"{seconds:.0f} seconds"


def bytes_of(count: float) -> str:
    """Write a number of bytes for a person.

    Example:
        >>> bytes_of(512), bytes_of(2_500_000), bytes_of(2.04e9)
        ('512 B', '2.5 MB', '2.04 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Draw a curve in one line of text, of at most `width` of its values.

    Example:
        >>> sparkline([8.0, 5.0, 3.0, 2.0, 1.5, 1.0])
        '█▅▃▂▁▁'
    """
    count = min(width, len(values))
    shown = [values[(i + 1) * len(values) // count - 1] for i in range(count)]  # with the last
    low, high = min(shown), max(shown)
    step = (high - low) / 7.999 or 1.0
    return "".join("▁▂▃▄▅▆▇█"[int((v - low) / step)] for v in shown)


class Bar:
    """A progress bar over `total` units, starting at `start`.

    With `foretell` the time left is said in a line of its own as soon as it is known. `work` says
    what so many units cost, in units, where something is done between them.

    Example:
        >>> with Bar("counting", 3, "steps") as bar:
        ...     bar.update(3, "loss 1.0")
    """

    def __init__(
        self,
        title: str,
        total: float,
        unit: str,
        start: float = 0,
        quiet: bool = False,
        foretell: bool = False,
        settle: int = SETTLE_UPDATES,
        work: Callable[[float], float] = float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.title, self.total, self.unit = title, total, unit
        self.quiet, self.foretell, self.work, self.clock = quiet, foretell, work, clock
        self.live = console.is_terminal and not quiet
        self.last_line = clock()
        self.pace = Pace(work(total), work(start), settle)
        columns = [TextColumn("{task.description}"), BarColumn(bar_width=24)]
        columns += [TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[note]}")]
        self.progress = Progress(
            *columns,
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=False,
        )
        self.task = self.progress.add_task(
            title, total=total or None, completed=int(start), note="", left=""
        )

    def __enter__(self) -> Bar:
        if self.live:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.progress.stop()

    def update(self, done: float, note: str = "") -> None:
        """Report that `done` units are finished."""
        now = self.clock()
        self.pace.see(now, self.work(done))
        left = self.pace.left() if self.total else None
        said = "" if left is None or done >= self.total else f"{duration(left)} left"
        self.progress.update(self.task, completed=done, note=note, left=said)
        if self.quiet:
            return
        if self.foretell and said:
            self.foretell = False
            console.print(f"{self.title}: about {said}", soft_wrap=True)
        if self.live or now - self.last_line < LINE_SECONDS:
            return
        self.last_line = now
        count = f"{done:.0f} %" if self.unit == "%" else f"{done}/{self.total} {self.unit}"
        if self.unit == "B":
            count = f"{bytes_of(done)} of {bytes_of(self.total)}" if self.total else bytes_of(done)
        print(" ".join(filter(None, [f"{self.title}: {count}", note])), end="", file=sys.stderr)
        print(f", {said}" if said else "", file=sys.stderr, flush=True)
