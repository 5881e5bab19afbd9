"""A step of each baseline beside MDLM's."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class ObjectiveStep:
    """A training step of one objective."""

    seconds: list[float]
    times_mdlm: float
    peak_memory_mib: list[float]  # with some rows, with twice as many
    bytes_a_token: float
    of_a_row_of_logits: float


@dataclass(frozen=True, kw_only=True)
class BaselinesStepBench(Result):
    """benchmarks/baselines_step.py."""

    command: ClassVar[str] = "bench-baselines-step"
    size: str
    rows: int
    length: int
    vocabulary: int
    wanted_of_bd3lm: float
    objectives: dict[str, ObjectiveStep]

    def section(self, name: str) -> Section:
        rows, base = [], self.objectives["mdlm"].bytes_a_token
        for objective, o in self.objectives.items():
            low, high = min(o.seconds), max(o.seconds)
            time = f"{statistics.median(o.seconds):.1f} ({low:.1f} to {high:.1f})"
            memory = " / ".join(f"{mib:,.0f}" for mib in o.peak_memory_mib)
            beyond = (o.bytes_a_token - base) / (4 * self.vocabulary)
            rows.append([objective, time, f"{o.times_mdlm:.2f}", memory, f"{beyond:+.2f}"])
        note = (
            f"`python benchmarks/baselines_step.py`: size {self.size}, V {self.vocabulary}, "
            f"L {self.length}, {self.rows} rows, {self.precision}; forward and backward of the "
            "loss. They take turns, ratios are medians over rounds; memory in processes of their "
            "own, with the rows and with twice as many. Block diffusion shows a row twice: at most "
            f"{self.wanted_of_bd3lm} times MDLM's step is wanted of it. The last column is what a "
            "further token takes beyond MDLM's, whose trunk they share, in rows of logits (4 V "
            "bytes): logits of all positions would be +1 or more. Block diffusion and D3PM pass a "
            "row twice, which is a second trunk's activations."
        )
        header = ["objective", "seconds", "times MDLM's", "peak MiB", "rows of logits beyond"]
        return Section("Baselines' training step", header, rows, [note])
