"""Sampling against a plain reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class SamplingCase:
    """One sampler."""

    seconds: float
    tokens_per_s: float
    nfe: float
    ms_per_pass: float
    note: str
    positions: float | None = None  # of all passes of a row, where something is kept


@dataclass(frozen=True, kw_only=True)
class SamplingBench(Result):
    """benchmarks/sampling.py."""

    command: ClassVar[str] = "bench-sampling"
    cases: dict[str, SamplingCase]
    times_as_fast_as_literal: dict[str, float]
    tokens_per_s_ratios: dict[str, float] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        rows = [
            [
                sampler,
                f"{c.seconds:.1f}",
                f"{c.tokens_per_s:,.1f}",
                f"{c.nfe:.1f}",
                f"{c.ms_per_pass:,.0f}",
                c.note,
            ]
            for sampler, c in self.cases.items()
        ]
        ratios = self.times_as_fast_as_literal.items()
        said = ", ".join(f"{sampler} {ratio:.1f}x" for sampler, ratio in ratios)
        note = (
            "`python benchmarks/sampling.py`: 12 blocks, d 768, V 50258, L 256, T 256, batch 8, "
            "against the published loop written plainly."
        )
        header = ["sampler", "seconds", "tokens/s", "passes a row", "ms a pass", ""]
        notes = [f"As fast as literal: {said}.", note]
        against = [f"{pair} {ratio:.2f}" for pair, ratio in self.tokens_per_s_ratios.items()]
        if against:
            notes.insert(1, f"Tokens a second, one over the other: {'; '.join(against)}.")
        return Section("Sampling", header, rows, notes)
