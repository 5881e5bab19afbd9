"""What is trained: a workload gives the engine a model, batches, a loss and a validation.

The engine minimises, for the global batch of each step,

    1 / count * sum over pieces of (bound + gamma(progress) * anchor)

and everything random in a step is a pure function of (seed, step).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from adlm.config import Config, OptimConfig
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.vocab import Vocab
from adlm.models.checkpoint import Checkpoint
from adlm.train.log import Metrics
from adlm.values import check, check_sizes
from adlm.world import World


@dataclass(frozen=True)
class Phase:
    """A part of the training with an optimiser and a learning-rate schedule of its own."""

    steps: int
    optim: OptimConfig


@dataclass(frozen=True)
class Cadence:
    """How often a run logs, validates and saves, in steps; 0 = only at the end of a phase."""

    log: int
    validate: int = 0
    validation: float = 0.0  # steps that take about as long as one
    save: int = 0
    save_seconds: float = float("inf")  # and after so long
    keep: int = 1  # checkpoints
    log_last: bool = True  # the steps before the end too, however few

    def work(self, step: float) -> float:
        """Return what steps cost with the validations between them, in steps.

        Example:
            >>> Cadence(log=10, validate=100, validation=5.0).work(250)
            260.0
        """
        return step + self.validation * (max(step - 1, 0) // self.validate if self.validate else 0)


@dataclass(frozen=True)
class Portion:
    """One process's part of the global batch of a step."""

    pieces: Sequence[Any]  # each fits into memory
    count: int  # predictions in the whole global batch


class Loss(NamedTuple):
    """The loss of a piece, summed over its predictions; all are scalars."""

    bound: Tensor  # with gradients
    anchor: Tensor  # with gradients, before gamma; 0 where it was not asked for
    nats: Tensor  # without: the bound as it is reported
    anchor_nats: Tensor


@dataclass(frozen=True)
class StepStats:
    """What one optimiser step tells of its global batch."""

    nats: float
    anchor: float  # before gamma
    tokens: int  # predictions
    grad_norm: float
    lr_factor: float


@dataclass(frozen=True)
class Moment:
    """How far a run is."""

    step: int
    tokens: int  # predictions so far
    seconds: float
    rate: float  # predictions a second since the process started
    precision: str


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a checkpoint's state.json says: how far the run is, and on which data."""

    step: int
    tokens: int = 0  # predictions so far
    seconds: float
    precision: str = ""
    recent: list[StepStats] = field(default_factory=list)  # since the last line of metrics
    data: str = ""  # hash of the training data
    shuffle: str = "array"  # how a pass over them is ordered, see data/loader.py

    def __post_init__(self) -> None:
        check_sizes(self, "", 0, step=10**12, tokens=10**18)
        check(self.shuffle in ("array", "keyed"), "shuffle", self.shuffle, "array or keyed")


class Workload(ABC):
    """A kind of training. The engine reads `config.train` and `config.optim` alone."""

    config: Config
    device: str
    model: nn.Module
    phases: Sequence[Phase]
    cadence: Cadence
    idle = False  # may some weights be without a gradient?
    said = ""  # how it goes, beside the progress bar
    vocab: Vocab  # with the next two, what a checkpoint holds besides
    lengths: Lengths | None = None
    counts: CorpusCounts | None = None

    @abstractmethod
    def portion(self, step: int, world: World) -> Portion:
        """Return this process's part of the batch of step number `step`, from 0."""

    @abstractmethod
    def dropout_seed(self, step: int, rank: int) -> int:
        """Return the seed of dropout in a step."""

    @abstractmethod
    def loss(self, piece: Any, anchor: bool) -> Loss:
        """Return the loss of one piece; `anchor` asks for the anchor term."""

    @abstractmethod
    def gamma(self, progress: float) -> float:
        """Return the weight of the anchor term at a share of the training."""

    @abstractmethod
    def record(self, steps: Sequence[StepStats], now: Moment) -> Metrics:
        """Return the line of metrics for some steps; it has a `loss`."""

    @abstractmethod
    def validate(self, now: Moment, world: World) -> Metrics:
        """Measure the model, each process its part; returns a line of metrics on all of them."""

    @abstractmethod
    def broken(self, step: int, run: Path, world: World) -> str:
        """What to say of a step whose loss is not finite, with its batch kept if that helps."""

    @abstractmethod
    def stopped(self, why: str, run: Path) -> str:
        """Add what to try next to why a run cannot go on."""

    @abstractmethod
    def state(self, now: RunState) -> RunState:
        """Return what is saved: how far the run is, with what the workload adds."""

    @abstractmethod
    def check(self, saved: Checkpoint) -> RunState:
        """Raise UserError unless the checkpoint is of this workload's data; return its state."""

    @abstractmethod
    def beginning(self, step: int, precision: str, world: World) -> str:
        """Say what is about to be trained."""

    @abstractmethod
    def ending(self, run: Path) -> str:
        """Say what came out."""

    @cached_property
    def ends(self) -> list[int]:
        """The step with which each phase ends."""
        return list(accumulate(phase.steps for phase in self.phases))

    def place(self, step: int) -> tuple[int, int]:
        """(phase, steps of it that are done) after so many steps; (number of phases, 0) = the end.

        Example:
            phases of 3 and 2 steps: place(2) == (0, 2), place(3) == (1, 0), place(5) == (2, 0)
        """
        at = bisect_right(self.ends, step)
        return at, step - (self.ends[at - 1] if at else 0)
