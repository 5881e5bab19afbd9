"""Options and fields that several evaluations share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

from adlm import device as devices
from adlm.config import check, to_dict
from adlm.models.checkpoint import Checkpoint
from adlm.results import Json, Result
from adlm.values import check_sizes

MOST_DRAWS = 100_000  # Monte-Carlo draws of a row


@dataclass(frozen=True)
class Computing:
    """How figures are computed.

    Attributes:
        seed: Seed of the draws.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
    """

    seed: int = 0
    device: str = "auto"
    precision: Literal["auto", "bf16", "fp32"] = "fp32"

    def __post_init__(self) -> None:
        check(0 <= self.seed < 2**31, "--seed", self.seed, "in [0, 2^31)")

    def place(self) -> tuple[str, str]:
        """Pick the device and the precision on this machine."""
        device = devices.pick(self.device)
        return device, devices.precision(self.precision, device)


@dataclass(frozen=True)
class Scoring(Computing):
    """How rows are scored.

    Attributes:
        draws: Monte-Carlo draws a row, for diffusion.
        limit: Score at most so many rows, spread evenly; 0 = all.
        batch: Rows at once; never changes the result.
    """

    draws: int = 4
    limit: int = 0
    batch: int = 64

    def __post_init__(self) -> None:
        check_sizes(self, "--", 1, draws=MOST_DRAWS)
        check(self.limit >= 0, "--limit", self.limit, "0 (all rows) or more")
        check(self.batch >= 1, "--batch", self.batch, "at least 1")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class CheckpointResult(Result):
    """What was measured of one checkpoint."""

    checkpoint: str | None = None  # None: samples from a file
    checkpoint_hash: str | None = None
    tokenizer_hash: str | None = None
    config: Json = field(default_factory=dict)  # as `config.to_dict` writes it

    def of(self, saved: Checkpoint, name: str = "") -> Self:
        """Return the same with what tells the checkpoint; `name` is its folder's by default."""
        return replace(
            self,
            checkpoint=name or saved.path.name,
            checkpoint_hash=saved.hash,
            tokenizer_hash=saved.vocab.hash,
            config=to_dict(saved.config),
        )
