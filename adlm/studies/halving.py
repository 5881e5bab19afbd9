"""A study by successive halving: one run of each candidate first, then all runs of the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from adlm.eval.seeds import interval
from adlm.studies.language import LanguageStudy
from adlm.studies.lasting_result import Gap, LastingResult, trends
from adlm.studies.result import MOST_LINES, RunFigures, StudyResult
from adlm.studies.runner import Cell

BASE = "MDLM"  # what candidates are compared with

Found = dict[tuple[str, int], RunFigures]


@dataclass(frozen=True)
class Place:
    """Where a row stands: which candidate, at which size and budget."""

    candidate: str
    size: str
    tokens: int  # of MDLM, whose FLOPs all have


@dataclass(frozen=True, kw_only=True)
class HalvingStudy(LanguageStudy):
    """Candidates at sizes and budgets, of which few are run everywhere."""

    places: dict[str, Place] = field(default_factory=dict)
    promote: int = 0  # candidates that go on; 0 = all
    asked: tuple[str, ...] = ()  # candidates that are run; all by default

    def cells(self) -> list[Cell]:
        """Return the first round, and once it is done all runs of those that go on."""
        every = [c for c in self.every_cell() if self.is_asked(self.places[c.row].candidate)]
        first = [c for c in every if self.is_first(c)]
        found = self.found()
        if any((c.row, c.seed) not in found for c in first):
            return first
        on = {BASE, *self.promoted(found)}
        return [c for c in every if self.is_first(c) or self.places[c.row].candidate in on]

    def is_asked(self, candidate: str) -> bool:
        """Is it to be run, if it goes on?"""
        return not self.asked or candidate in (BASE, *self.asked)

    def is_first(self, cell: Cell) -> bool:
        """Is it of the first round: the first size and budget, with one seed?"""
        start = next(iter(self.places.values()))
        own = self.places[cell.row]
        return cell.seed == 0 and (own.size, own.tokens) == (start.size, start.tokens)

    def promoted(self, found: Found) -> list[str]:
        """Return the best candidates of the first round by validation PPL, best first."""
        tried = {
            self.places[c.row].candidate: found[c.row, c.seed].valid_ppl
            for c in self.every_cell()
            if self.is_first(c) and (c.row, c.seed) in found
        }
        able = [name for name in tried if name != BASE and self.is_asked(name)]
        best = sorted(able, key=tried.__getitem__)
        return best[: self.promote or None]

    def run(self, workers: int, threads: int = 0) -> Any:
        """Do round after round until nothing is left."""
        while self.left():
            super().run(workers, threads)
        return self.gather()

    def gather(self) -> LastingResult:
        """Return all finished runs, and the gaps between candidates and MDLM."""
        made, found = super().gather(), self.found()
        gaps = self.gaps(found)
        names = by_length(gaps)
        longer = [n for n in names if sum(g.candidate == n for g in gaps) > 1]
        values = {f.name: getattr(made, f.name) for f in fields(StudyResult)}
        values["shown"] = (longer or names)[: MOST_LINES - 1]  # and MDLM's own
        return LastingResult(**values, gaps=gaps, trends=trends(gaps))

    def gaps(self, found: Found) -> list[Gap]:
        """Compare each candidate with MDLM of the same size, budget and seed."""
        at = {place: row for row, place in self.places.items()}
        out = []
        for place, row in at.items():
            base = at[Place(BASE, place.size, place.tokens)]
            seeds = [s for name, s in sorted(found) if name == row and (base, s) in found]
            if place.candidate != BASE and seeds:
                each = [
                    ahead(found[row, s].test_ppl, found[base, s].test_ppl) for s in sorted(seeds)
                ]
                mean = sum(each) / len(each)
                spread = interval(each)
                out.append(
                    Gap(place.candidate, place.size, place.tokens, seeds, each, mean, spread)
                )
        return out


def by_length(gaps: list[Gap]) -> list[str]:
    """Return the candidates, those of most budgets first, then by their gap at the largest.

    Example:
        >>> gap = lambda name, tokens, mean: Gap(name, "nano", tokens, [0], [mean], mean, None)
        >>> by_length([gap("a", 1, -3.0), gap("b", 1, -1.0), gap("c", 1, -9.0), gap("c", 2, -2.0)])
        ['c', 'b', 'a']
    """
    own: dict[str, list[Gap]] = {}
    for gap in sorted(gaps, key=lambda g: g.tokens):
        own.setdefault(gap.candidate, []).append(gap)
    return sorted(own, key=lambda name: (-len(own[name]), -own[name][-1].mean))


def ahead(ppl: float, base: float) -> float:
    """By how many percent a perplexity is below another.

    Example:
        >>> ahead(45.0, 50.0)
        10.0
    """
    return 100 * (base - ppl) / base if math.isfinite(ppl) else -math.inf
