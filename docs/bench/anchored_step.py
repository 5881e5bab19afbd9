"""What an anchored step costs beside a plain one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class AgainstLiteral:
    """A folded model beside the literal one."""

    as_fast: float
    by_flops: float
    memory: float


@dataclass(frozen=True)
class Phase:
    """Training or inference, by model."""

    seconds: dict[str, list[float]]
    peak_memory_mib: dict[str, float]
    memory_rows: int
    flops: dict[str, int]
    against_literal: dict[str, AgainstLiteral]
    time_of_plain: float


@dataclass(frozen=True, kw_only=True)
class AnchoredStepBench(Result):
    """benchmarks/anchored_step.py."""

    command: ClassVar[str] = "bench-anchored-step"
    rows: int
    phases: dict[str, Phase]

    def section(self, name: str) -> Section:
        rows, notes = [], []
        for phase, found in self.phases.items():
            for model, times in found.seconds.items():
                time = f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
                work, memory = found.flops[model] / 1e12, found.peak_memory_mib[model]
                rows.append([phase, model, time, f"{work:.2f}", f"{memory:,.0f}"])
            said = [
                f"{model} {pair.as_fast:.2f}x as fast as literal ({pair.by_flops:.2f}x by FLOPs) "
                f"with {pair.memory:.2f} of its memory"
                for model, pair in found.against_literal.items()
            ]
            plain = f"{found.time_of_plain:.2f}x the time of the plain model"
            notes.append(f"{phase.capitalize()}: {'; '.join([*said, plain])}.")
        each = [f"{f.memory_rows} for the memory of {p}" for p, f in self.phases.items()]
        how = f"{self.rows} rows for the seconds, {', '.join(each)}; {self.precision}."
        note = (
            "`python benchmarks/anchored_step.py`: V 50258, d 768, 12 + 6 blocks, L 128; they take "
            "turns, ratios are medians over rounds. Inference: folded and plain have the "
            "denoiser's logits or log p at the masked half; literal has the anchor's and the "
            "denoiser's logits at every position, and log p by both SUBS rules, as the published "
            "forward does. Training: seconds of forward and backward; peak memory of a step with "
            "AdamW's update and moments."
        )
        header = ["phase", "model", "seconds", "TFLOP", "peak MiB"]
        return Section("Anchored step", header, rows, [how, *notes, note])
