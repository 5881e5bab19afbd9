"""What a method is: a plan of stages, and what stands between question and target in each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from adlm import registry
from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.errors import UserError, nearest
from adlm.reasoning.sequence import Sequence, Slots, sequence
from adlm.reasoning.vocab import Pieces

ALL = 1_000  # more steps than any item has


@dataclass(frozen=True)
class Schedule:
    """How long the stages are; the last one takes what is left of the epochs."""

    stages: int  # of a curriculum
    per_stage: int
    epochs: int  # in all


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

    def stages(self, schedule: Schedule) -> list[Stage]:
        raise NotImplementedError

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        return Slots([], [], [])

    def sequence(self, item: Pieces, stage: Stage, vocab: Vocab) -> Sequence:
        """The row of an item in a stage."""
        return sequence(item, self.slots(item, stage, vocab), stage.removed)


def curriculum(
    schedule: Schedule, slots: int, remove: bool, all_at_last: bool = False
) -> list[Stage]:
    """Chain-of-thought first; then, a stage at a time, `slots` more slots and one step fewer.

    The last stage takes the epochs that are left; with `all_at_last` it has no step at all.

    Example:
        >>> [s.describe() for s in curriculum(Schedule(2, 3, 10), 1, True)]
        ['3 epochs, 0 slots, 0 steps removed', '3 epochs, 1 slots, 1 steps removed', \
'4 epochs, 2 slots, 2 steps removed']
    """
    check(schedule.stages >= 0, "stages", schedule.stages, "0 or more")
    before = schedule.stages * schedule.per_stage
    if schedule.epochs <= before:
        raise UserError(
            f"{schedule.stages} stages of {schedule.per_stage} epochs leave none of "
            f"{schedule.epochs} epochs for the last: take more epochs, or fewer a stage"
        )
    epochs = [schedule.per_stage] * schedule.stages + [schedule.epochs - before]
    gone = [k if remove else 0 for k in range(schedule.stages + 1)]
    if all_at_last and schedule.stages:
        gone[-1] = ALL
    return [Stage(e, k * slots, gone[k]) for k, e in enumerate(epochs)]


def make_method(name: str, options: dict[str, Any] | None = None) -> Method:
    """The method of that name with its options."""
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
