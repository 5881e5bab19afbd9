"""Time left: nothing until it means something, then within a quarter of what it turns out to be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable

import pytest

from adlm.progress import POINTS, Bar, Pace, duration
from adlm.train.workload import Cadence


def said(steps: Iterable[float], total: int, start: int = 0) -> list[tuple[float, float]]:
    """(seconds that were really left, seconds said) after each step of a run."""
    ends = list(itertools.accumulate(steps))
    pace, out = Pace(total, start), []
    pace.see(0.0, start)
    for done, now in enumerate(ends, start + 1):
        pace.see(now, done)
        if (left := pace.left()) is not None:
            out.append((ends[-1] - now, left))
    return out


RUNS: dict[str, Callable[[], list[float]]] = {
    "steady": lambda: [0.5] * 400,
    "a slow start": lambda: [60.0, *[0.5] * 399],
    "two compilations": lambda: [60.0, 0.5, 40.0, *[0.5] * 397],
    "a late compilation": lambda: [60.0, 25.0, *[0.2] * 97, 40.0, *[0.2] * 900],
    "an evaluation every 100 steps": lambda: [2.0 if i % 100 == 99 else 0.2 for i in range(1300)],
    "uneven steps": lambda: [0.3 * random.Random(i).uniform(0.5, 1.5) for i in range(500)],
    "long steps": lambda: [40.0] * 12,
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_said_is_within_a_quarter_from_the_first_word_on(name):
    steps = RUNS[name]()
    found = said(steps, len(steps))
    assert len(found) > len(steps) / 2
    for real, left in found:
        assert left == pytest.approx(real, rel=0.25, abs=2.0), (real, left)


def test_validations_are_in_what_is_said_before_the_first_of_them():
    every = Cadence(log=10, validate=50, validation=20.0)
    steps = [0.2 + (4.0 if i % 50 == 0 and i else 0.0) for i in range(1000)]  # after the 50th
    clock = 0.0
    ends = list(itertools.accumulate(steps))
    bar = Bar("x", 1000, "steps", quiet=True, work=every.work, clock=lambda: clock)
    for done, clock in enumerate(ends, 1):
        bar.update(done)
        if (left := bar.pace.left()) is not None and done < 990:
            assert left == pytest.approx(ends[-1] - clock, rel=0.05, abs=1.0), done


def test_a_change_of_speed_is_followed():
    steps = [0.1] * 200 + [0.4] * 600
    real, left = said(steps, 800)[-400]
    assert left == pytest.approx(real, rel=0.05)


def test_a_resumed_run_counts_only_its_own_steps():
    real, left = said([1.0] * 100, 1000, start=900)[0]
    assert left == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize("steps", [[0.1] * 40, [10.0] * 3, [100.0]])
def test_nothing_is_said_too_early(steps):
    assert not said(steps, 1000)


def test_a_long_run_remembers_little():
    pace = Pace(10**6)
    for step in range(20_000):
        pace.see(float(step), step)
    assert len(pace.seen) <= POINTS
    assert pace.left() == pytest.approx(10**6 - 19_999, rel=0.01)


def test_progress_in_lumps_of_several_runs_is_told_later_and_as_well():
    ends = sorted(10 + 3.1 * k for k in range(1, 131)) + sorted(12 + 2.3 * k for k in range(1, 131))
    pace, found = Pace(260, settle=12), []
    for now in range(int(max(ends)) + 1):
        pace.see(float(now), sum(e <= now for e in ends))
        if (left := pace.left()) is not None and now < 250:  # later only one is left
            found.append(left)
            assert left == pytest.approx(260 / (1 / 3.1 + 1 / 2.3) + 11 - now, rel=0.25), now
    assert len(found) > 200


def test_time_passes_between_updates():
    pace = Pace(10)
    for step in range(1, 6):
        pace.see(2.0 * step, step)
    assert pace.left() == pytest.approx(10.0)
    pace.see(13.0, 5)
    assert pace.left() == pytest.approx(7.0)


def test_a_bar_tells_the_time_once_and_the_time_left_in_its_lines(capsys):
    clock = iter(range(0, 10_000, 4))
    bar = Bar("training", 100, "steps", foretell=True, clock=lambda: float(next(clock)))
    for step in range(1, 31):
        bar.update(step, "loss 1.0")
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "training: about 6.4 minutes left"  # after four steps of four seconds
    assert sum("about" in line for line in shown) == 1
    assert "training: 8/100 steps loss 1.0, 6.1 minutes left" in shown
    assert all("left" in line for line in shown[1:])


def test_a_quiet_bar_says_nothing(capsys):
    clock = iter(range(0, 10_000, 40))
    bar = Bar("x", 9, "steps", quiet=True, foretell=True, clock=lambda: float(next(clock)))
    for step in range(9):
        bar.update(step)
    assert capsys.readouterr().err == ""


def test_durations_read_as_a_person_would_say_them():
    assert [duration(s) for s in (59, 60, 3600, 86400, 2 * 86400)] == [
        "59 seconds",
        "1.0 minutes",
        "1.0 hours",
        "24.0 hours",
        "2.0 days",
    ]
