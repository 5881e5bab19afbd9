"""The result of `adlm eval interval`: how much block diffusion's loss varies on each interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.objectives.interval import Interval
from adlm.registry import register
from adlm.results import Result
from adlm.viz.page import Section

SHOWN = 5  # of the best intervals


@register("result", "eval interval")
@dataclass(frozen=True, kw_only=True)
class Intervals(Result):
    """All candidates, the least varying first."""

    command: ClassVar[str] = "eval interval"
    split: str
    rows: int
    seed: int
    block: int  # tokens in a block
    checkpoint: str  # its hash
    found: list[Interval]

    @property
    def whole(self) -> Interval:
        """All times."""
        return next(f for f in self.found if (f.low, f.high) == (0.0, 1.0))

    def summary(self) -> str:
        """What a person wants to know: the best interval, and what it gains."""
        best = self.found[0]
        return (
            f"blocks of {self.block}: the loss varies least with t in [{best.low:g}, "
            f"{best.high:g}], variance {best.variance:.4f} against {self.whole.variance:.4f} on "
            f"[0, 1] ({self.rows} rows of {self.split}); --process.clip "
            f"'[{best.low:g}, {best.high:g}]' --process.masking bernoulli trains on it"
        )

    def section(self, name: str) -> Section:
        shown = [*self.found[:SHOWN], self.whole]
        return Section(
            f"interval of times: {name}",
            ["t from", "to", "variance", "nats a token"],
            [
                [f"{f.low:g}", f"{f.high:g}", f"{f.variance:.4f}", f"{f.nats:.4f}"]
                for f in dict.fromkeys(shown)
            ],
            [self.summary()],
        )
