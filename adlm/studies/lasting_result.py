"""What lasts: gaps to MDLM at equal FLOPs, and where they go as the budget grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import stdev
from typing import ClassVar

import numpy as np

from adlm.eval.seeds import interval
from adlm.registry import register
from adlm.studies.result import StudyResult, StudyRow
from adlm.viz.page import Section
from adlm.viz.plots import Line, png
from adlm.viz.table import bounded


@dataclass(frozen=True)
class Gap:
    """By how many percent a candidate's test PPL is below that of MDLM of equal training FLOPs."""

    candidate: str
    size: str
    tokens: int  # of MDLM
    seeds: list[int]
    percent: list[float]  # by seed; below 0: behind
    mean: float
    ci95: tuple[float, float] | None  # of the mean; None for fewer than three seeds

    @property
    def figure(self) -> str:
        """The mean, with its interval where there is one."""
        if self.ci95 is None:
            return f"{self.mean:+.1f} %"
        return f"{self.mean:+.1f} % ({self.ci95[0]:+.1f} to {self.ci95[1]:+.1f})"


@dataclass(frozen=True)
class Trend:
    """A line through a candidate's gaps against the doublings of the budget."""

    candidate: str
    size: str
    doubling: float  # points of percent that the gap changes with each doubling
    ci95: tuple[float, float] | None  # over seeds; None for fewer than three
    last: float  # the gap at the largest budget, in percent
    tokens: int  # the largest budget
    gone: float | None  # tokens at which the line meets zero; None where it leads away from it
    budgets: int
    kept: float | None = None  # or the share of the gap that each doubling leaves, if it shrinks

    def sentence(self) -> str:
        """Say where the gap goes."""
        side = "ahead of" if self.last >= 0 else "behind"
        said = (
            f"{self.candidate} ({self.size}) is {abs(self.last):.1f} % {side} MDLM at equal FLOPs"
        )
        said += f" at {self.tokens / 1e6:g} M tokens; each doubling changes that by "
        said += f"{self.doubling:+.1f} points"
        if self.ci95:
            said += f" (95 % interval {self.ci95[0]:+.1f} to {self.ci95[1]:+.1f})"
        else:
            said += " (fewer than three seeds, so no interval)"
        if self.budgets < 3:
            return f"{said}, between two budgets."
        if self.ci95 and self.ci95[0] <= 0 <= self.ci95[1]:
            return f"{said}: neither growing nor shrinking, as far as this tells."
        if self.gone is None:
            return f"{said}: the line does not go to zero."
        said += f": the line is at zero at {self.gone / 1e6:,.0f} M tokens"
        if self.kept is not None:
            said += f", and if each doubling keeps {self.kept:.2f} of the gap, it never closes"
        return f"{said}."


@register("result", "study-lasting")
@dataclass(frozen=True, kw_only=True)
class LastingResult(StudyResult):
    """All finished runs, the gaps between them, and their trends."""

    command: ClassVar[str] = "study-lasting"
    gaps: list[Gap] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)

    def section(self, name: str) -> Section:
        """One line a gap, best first at each budget; a sentence a trend that is shown."""
        ordered = sorted(self.gaps, key=lambda g: (g.size, g.tokens, -g.mean))
        found = {r.row: r for r in self.rows}
        rows = []
        for gap in ordered:
            own, base = (
                found[f"{n}, {gap.size}, {gap.tokens / 1e6:g} M"] for n in (gap.candidate, "MDLM")
            )
            trained, budget = f"{own.tokens / 1e6:.1f} M", f"{gap.tokens / 1e6:g} M"
            seeds = str(len(gap.seeds))
            both = over(own, gap.seeds), over(base, gap.seeds), gap.figure
            rows.append([gap.candidate, gap.size, budget, trained, seeds, *both])
        said = [t.sentence() for t in self.trends if t.candidate in self.shown]
        header = ["candidate", "size", "MDLM's tokens", "its tokens", "seeds", "test PPL"]
        return Section(
            "Study: does it last?",
            [*header, "MDLM's test PPL", "ahead of MDLM at equal FLOPs"],
            rows,
            said,
            plots=[("percent of perplexity ahead of MDLM at equal FLOPs", self.plot())],
        )

    def plot(self) -> bytes:
        """Gap against budget, a panel a size, with intervals over seeds."""
        panels = {}
        for size in dict.fromkeys(g.size for g in self.gaps):
            own = [g for g in self.gaps if g.size == size]
            budgets = sorted({g.tokens for g in own})
            lines = [line(name, [g for g in own if g.candidate == name]) for name in self.shown]
            zero = Line("MDLM", budgets, [0.0] * len(budgets), dashed=True)
            panels[size] = [zero, *(drawn for drawn in lines if drawn.x)]
        return png(panels or {"none": []}, "MDLM's tokens", "% ahead of MDLM", log_x=True)


def over(row: StudyRow, seeds: list[int]) -> str:
    """A row's test PPL over some of its seeds: mean ± sd."""
    each = [row.test_ppl[row.seeds.index(s)] for s in seeds]
    sd = stdev(each) if len(each) > 1 else None
    return bounded(sum(each) / len(each), row.exact, sd)


def line(name: str, gaps: list[Gap]) -> Line:
    """A candidate's gaps as a line with a band."""
    low = [g.ci95[0] if g.ci95 else g.mean for g in gaps]
    high = [g.ci95[1] if g.ci95 else g.mean for g in gaps]
    return Line(name, [g.tokens for g in gaps], [g.mean for g in gaps], low, high)


def trends(gaps: list[Gap]) -> list[Trend]:
    """Fit a line to the gaps of each candidate and size that has two budgets or more."""
    groups: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.candidate, gap.size), []).append(gap)
    return [trend(sorted(g, key=lambda x: x.tokens)) for g in groups.values() if len(g) > 1]


def trend(gaps: list[Gap]) -> Trend:
    """Fit gap = a + b log2(tokens) by least squares; the interval is over the seeds' own lines.

    Seeds that are not at every budget do not count: a change of seeds would look like a trend.

    Example:
        >>> one, two = (Gap("a", "nano", n, [0], [g], g, None) for n, g in ((4, 6.0), (8, 3.0)))
        >>> trend([one, two]).doubling, trend([one, two]).gone
        (-3.0, 16.0)
    """
    x = np.log2([g.tokens for g in gaps])

    def slope(y: list[float]) -> float:
        return float(np.polyfit(x - x.mean(), y, 1)[0])

    common = sorted(set.intersection(*(set(g.seeds) for g in gaps)))
    each = [[g.percent[g.seeds.index(s)] for g in gaps] for s in common]
    by_seed, means = [slope(y) for y in each], np.mean(each, axis=0).tolist()
    doubling, middle = round(slope(means), 10), float(np.mean(means))
    last = middle + doubling * float(x[-1] - x.mean())  # on the line
    towards = doubling * last < 0
    gone = round(2.0 ** float(x[-1] - last / doubling), 6) if towards else None
    first, sizes = gaps[0], np.abs(means)
    shrinks = len(gaps) > 2 and towards and (sizes > 0).all() and len(set(np.sign(means))) == 1
    return Trend(
        first.candidate,
        first.size,
        doubling,
        interval(by_seed),
        gaps[-1].mean,
        gaps[-1].tokens,
        gone,
        len(gaps),
        2.0 ** slope(np.log2(sizes).tolist()) if shrinks else None,
    )
