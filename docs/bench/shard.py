"""Sharded training beside replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class ShardCase:
    """So many processes, of which each has a share of something; in bytes."""

    processes: int
    shard: str
    difference: float  # of losses from those of one process, the largest, as a share
    norm_difference: float  # of gradients' norms
    valid_nll: float
    weights: int
    gradients: int
    moments: int
    ema: int
    at_rest: int
    peak: int


@dataclass(frozen=True, kw_only=True)
class ShardBench(Result):
    """benchmarks/shard.py."""

    command: ClassVar[str] = "bench-shard"
    steps: int
    cases: list[ShardCase]
    resumed: dict[str, float]
    killed: float

    def section(self, name: str) -> Section:
        whole = {c.processes: c for c in self.cases if c.shard == "none"}
        rows = [
            [
                f"{c.processes}, {c.shard}",
                f"{c.difference:.1e}",
                f"{c.norm_difference:.1e}",
                f"{c.valid_nll:.6f}",
                *(f"{part / 2**20:.1f}" for part in (c.weights, c.gradients, c.moments, c.ema)),
                f"{c.at_rest / whole[c.processes].at_rest:.2f}",
                f"{c.peak / whole[c.processes].peak:.2f}",
            ]
            for c in self.cases
        ]
        said = ", ".join(f"{how}: {share:.1e}" for how, share in self.resumed.items())
        notes = [
            f"Saved on 4 processes and resumed on fewer, the largest difference: {said}. One of 4 "
            f"killed by SIGKILL and all started again, against undisturbed: {self.killed:.1e}.",
            "`python benchmarks/shard.py`: ADLM, AdamW, fp32, gloo. Differences are over "
            f"{self.steps} steps at size pico; MiB that a process holds before the update, at size "
            "tiny; `held` are shares of what a process has where nothing is sharded, `at most` "
            "when a block is passed, with what is gathered then (DDP's buckets are not counted).",
        ]
        header = ["processes, shard", "losses differ by", "norms by", "validation nats"]
        header += ["weights", "gradients", "moments", "averaged", "held", "held at most"]
        return Section("Sharded training", header, rows, notes)
