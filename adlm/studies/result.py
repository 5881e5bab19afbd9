"""What a study of language models found: rows over seeds, and pairs of them seed by seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from adlm.eval.seeds import interval
from adlm.registry import register
from adlm.results import Json, Result
from adlm.viz.page import Section
from adlm.viz.plots import Line, png
from adlm.viz.table import bounded

MOST_LINES = 6  # of a picture that can still be read


@dataclass(frozen=True)
class RunFigures:
    """What is kept of one run."""

    test_ppl: float
    test_se: float | None
    valid_ppl: float
    exact: bool
    data_hash: str
    tokens: list[int]  # at which the valid split was scored on the way
    valid_nll: list[float]


@dataclass(frozen=True)
class LearningCurve:
    """Validation NLL against training tokens: mean and sd over seeds."""

    tokens: list[float]
    valid_nll_mean: list[float]
    valid_nll_sd: list[float]


@dataclass(frozen=True)
class StudyRow:
    """One configuration over its seeds; all lists of figures are in the order of `seeds`."""

    row: str
    parameters: int
    tokens: int
    training_flops: float
    seeds: list[int]
    test_ppl: list[float]
    test_ppl_mean: float
    test_ppl_sd: float | None
    valid_ppl_mean: float
    exact: bool
    curve: LearningCurve
    config: Json  # as `config.to_dict` writes it
    runs: list[RunFigures] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return self.test_ppl_mean

    @property
    def sd(self) -> float | None:
        return self.test_ppl_sd

    @property
    def figure(self) -> str:
        """Test PPL, mean ± sd."""
        return bounded(self.mean, self.exact, self.sd)

    def line(self) -> Line:
        """Validation PPL against tokens, with a band of one sd over seeds."""
        low, middle, high = (
            [
                math.exp(mean + side * sd)
                for mean, sd in zip(self.curve.valid_nll_mean, self.curve.valid_nll_sd, strict=True)
            ]
            for side in (-1, 0, 1)
        )
        return Line(self.row, self.curve.tokens, middle, low, high)


@dataclass(frozen=True)
class StudyPair:
    """Test PPL of one row less that of another with the same seed."""

    row: str
    against: str
    test_ppl: list[float]
    ci95: tuple[float, float] | None  # of their mean; None for fewer than three seeds

    def sentence(self) -> str:
        each = ", ".join(f"{d:+.2f}" for d in self.test_ppl)
        said = f"{self.row} against {self.against}, seed by seed: {each} PPL"
        if self.ci95:
            low, high = self.ci95
            said += f"; 95 % interval of their mean: {low:+.2f} to {high:+.2f}"
        return f"{said}."


@register("result", "study")
@dataclass(frozen=True, kw_only=True)
class StudyResult(Result):
    """All finished runs of a study. Files of older versions have `study` and no `command`."""

    command: ClassVar[str] = "study"
    study: str
    tokens: int = 0  # of each row, where the rows were made for one number
    rows: list[StudyRow]
    pairs: list[StudyPair] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # rows of the picture; all by default

    def section(self, name: str) -> Section:
        """One line a row, one note a pair, and the curves of the rows that are shown."""
        rows = [
            [
                r.row,
                f"{r.parameters:,}",
                f"{r.tokens / 1e6:.1f} M",
                f"{r.training_flops / 1e12:.0f}",
                str(len(r.seeds)),
                bounded(r.valid_ppl_mean, r.exact),
                r.figure,
            ]
            for r in self.rows
        ]
        header = ["model", "parameters", "tokens", "TFLOP", "seeds", "validation PPL"]
        lines = [r.line() for r in self.rows if r.row in self.shown or not self.shown]
        curves = "The curves score a part of the validation split on the way, the table all of it."
        plot = png({self.study: lines}, "tokens", "validation PPL", log_y=True)
        return Section(
            f"Study: {self.study}",
            [*header, "test PPL (mean ± sd)"],
            rows,
            [*(pair.sentence() for pair in self.pairs), curves],
            plots=[("validation perplexity against tokens", plot)],
        )


def differences(rows: list[StudyRow], pairs: tuple[tuple[str, str], ...]) -> list[StudyPair]:
    """Compare rows seed by seed."""
    found = {r.row: dict(zip(r.seeds, r.test_ppl, strict=True)) for r in rows}
    out = []
    for row, other in pairs:
        if row in found and other in found:
            each = [p - found[other][s] for s, p in found[row].items() if s in found[other]]
            out.append(StudyPair(row, other, each, interval(each)))
    return out


def learning_curve(runs: list[RunFigures]) -> LearningCurve:
    """Mean and sd over seeds, as far as all of them went."""
    points = min(len(r.tokens) for r in runs)
    values = np.array([r.valid_nll[:points] for r in runs])  # (seeds, points)
    sd = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(points)
    tokens = [float(n) for n in runs[0].tokens[:points]]
    return LearningCurve(tokens, values.mean(axis=0).tolist(), sd.tolist())
