"""What a method is: a plan of stages, and what stands between question and target in each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from adlm import registry
from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.errors import UserError, nearest
from adlm.reasoning.sequence import Row, Slots, make_row
from adlm.reasoning.vocab import Pieces
from adlm.values import Options

ALL = 1_000  # more steps than any item has


@dataclass(frozen=True)
class Curriculum:
    """How long stages are: stage 0, then `stages` more; the last takes what is left of the epochs.

    Example:
        >>> Curriculum(stages=2, per_stage=3, epochs=10).lengths()
        [3, 3, 4]
        >>> Curriculum(stages=2, per_stage=1, epochs=10, first=6).lengths()
        [6, 1, 3]
    """

    stages: int
    per_stage: int  # epochs of each but the last
    epochs: int  # in all
    first: int = 0  # epochs of stage 0; as many as the others have by default

    def lengths(self) -> list[int]:
        """Epochs of each stage."""
        check(self.stages >= 0, "stages", self.stages, "0 or more")
        before = [self.per_stage] * self.stages
        before[:1] = [self.first or self.per_stage] * min(self.stages, 1)
        left = self.epochs - sum(before)
        if left <= 0:
            several = " and ".join(str(n) for n in dict.fromkeys(before))
            raise UserError(
                f"{self.stages} stages of {several} epochs leave none of "
                f"{self.epochs} epochs for the last: take more epochs, or fewer a stage"
            )
        return [*before, left]

    def fewer_steps(self) -> list[int]:
        """Steps that are gone in each stage, where the last has none: 0, 1, ..., all."""
        return [*range(self.stages), ALL] if self.stages else [0]


@dataclass(frozen=True)
class Stage:
    """A part of the training."""

    epochs: int
    slots: int = 0
    removed: int = 0  # steps, from the first

    def describe(self) -> str:
        gone = "all steps" if self.removed >= ALL else f"{self.removed} steps"
        return f"{self.epochs} epochs, {self.slots} slots, {gone} removed"


@dataclass(frozen=True)
class Method:
    """A way to train a model to reason. Its fields are its options."""

    name: ClassVar[str]

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        raise NotImplementedError

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        return Slots([], [], [])

    def row(self, item: Pieces, stage: Stage, vocab: Vocab) -> Row:
        """Return the row of an item in a stage."""
        return make_row(item, self.slots(item, stage, vocab), stage.removed)


def make_method(name: str, options: Options | None = None) -> Method:
    """Return the method of that name with its options."""
    kind = registry.lookup("method", name)
    known = {f.name: f for f in fields(kind)}
    for option, value in (options or {}).items():
        if option not in known:
            said = nearest(option, known) if known else "; it has none"
            raise UserError(f"the method {name} has no option '{option}'{said}")
        right = type(known[option].default)
        if type(value) is not right:
            raise UserError(f"{name}'s {option} must be a {right.__name__}, found {value!r}")
    return kind(**(options or {}))
