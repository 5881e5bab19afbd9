"""`eval interval`: how much block diffusion's training loss varies on each interval of times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from adlm.config import check
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.eval.base import CheckpointResult, Computing
from adlm.models.checkpoint import Checkpoint
from adlm.models.hub import load_model
from adlm.objectives.interval import Interval, search
from adlm.objectives.likelihood import spread
from adlm.registry import register
from adlm.samplers.choice import in_blocks
from adlm.viz.page import Section

SHOWN = 5  # of the best intervals


@dataclass(frozen=True)
class IntervalSettings(Computing):
    """What is measured, and how.

    Attributes:
        split: Which part of the checkpoint's data.
        limit: Score at most so many rows, spread evenly; 0 = all.
        batch: Rows at once.
    """

    split: Literal["train", "valid", "test"] = "valid"
    limit: int = 256
    batch: int = 64

    def __post_init__(self) -> None:
        right = "0 (all rows), or at least 2"
        check(self.limit >= 0 and self.limit != 1, "--limit", self.limit, right)
        check(self.batch >= 1, "--batch", self.batch, "at least 1")
        super().__post_init__()


@register("result", "eval interval")
@dataclass(frozen=True, kw_only=True)
class IntervalResult(CheckpointResult):
    """All candidates, the least varying first."""

    command: ClassVar[str] = "eval interval"
    split: str
    rows: int
    seed: int
    block: int  # tokens in a block
    found: list[Interval]

    def text(self) -> str:
        best = self.found[0]
        whole = next(f for f in self.found if (f.low, f.high) == (0.0, 1.0))
        clip = f"[{best.low:g}, {best.high:g}]"
        return (
            f"blocks of {self.block}: the loss varies least with t in {clip}, variance "
            f"{best.variance:.4f} against {whole.variance:.4f} on [0, 1] ({self.rows} rows of "
            f"{self.split}); --process.clip '{clip}' --process.masking bernoulli trains on it"
        )

    def section(self, name: str) -> Section:
        rows = [
            [f"{f.low:g}", f"{f.high:g}", f"{f.variance:.4f}", f"{f.nats:.4f}"]
            for f in self.found[:SHOWN]
        ]
        header = ["t from", "to", "variance", "nats a token"]
        return Section(f"Interval of times: {name}", header, rows, [self.text()])


def measure(saved: Checkpoint, settings: IntervalSettings = IntervalSettings()) -> IntervalResult:
    """Measure every candidate interval with a checkpoint of block diffusion."""
    if not in_blocks(saved.config):
        raise UserError(f"{saved.path} must be of block diffusion, found {saved.config.objective}")
    device, precision = settings.place()
    rows = open_rows(saved.config.data, settings.split, saved.vocab)
    index = spread(len(rows), settings.limit)
    if len(index) < 2:
        raise UserError(f"{settings.split} must have at least 2 rows, found {len(index)}")
    how = (settings.seed, settings.batch, device, precision)
    found = search(load_model(saved, device), saved.config, saved.vocab, rows, index, *how)
    result = IntervalResult(
        split=settings.split,
        rows=len(index),
        seed=settings.seed,
        block=saved.config.process.block,
        found=found,
    )
    return result.of(saved).stamped(device, precision)
