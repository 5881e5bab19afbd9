"""A training step against the machine's peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class StepRate:
    """One size of model at one length of rows."""

    size: str
    precision: str
    length: int
    tokens_per_s: float
    gflops: float
    matmul_peak_gflops: float
    share_of_peak: float
    peak_memory_mib: float
    isa: str = ""
    update_share_of_time: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainStepBench(Result):
    """benchmarks/train_step.py."""

    command: ClassVar[str] = "bench-train-step"
    rows: list[StepRate]

    def section(self, name: str) -> Section:
        rows = [
            [
                r.size,
                f"{r.precision}{', AVX2' * (r.isa == 'avx2')}",
                str(r.length),
                f"{r.tokens_per_s:,.0f}",
                f"{r.gflops:,.0f} of {r.matmul_peak_gflops:,.0f}",
                f"{r.share_of_peak:.0%}",
                "left out" if r.update_share_of_time is None else f"{r.update_share_of_time:.0%}",
                f"{r.peak_memory_mib:,.0f}",
            ]
            for r in self.rows
        ]
        header = ["size", "precision", "L", "tokens/s", "GFLOP/s of the peak", "share"]
        sizes = " ".join(dict.fromkeys(r.size for r in self.rows))
        note = (
            f"`python benchmarks/train_step.py --sizes {sizes} --compile`: one MDLM step, "
            "the optimiser's update included where its share of the time stands, against "
            "the matrix-product peak of the same run; rows of L and 4 L, as many tokens; "
            "AVX2: without AVX-512 and bf16 units. "
            "The rest of the time goes to what is no large matrix product: norms, attention, the "
            "loss, and at nano, whose matrices are small, the update."
        )
        return Section("Training step", [*header, "the update's time", "peak MiB"], rows, [note])
