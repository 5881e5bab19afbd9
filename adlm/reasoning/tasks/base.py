"""What a task is: where its files are, how one is made, and what makes a solution sound.

A task is a frozen dataclass whose fields are the knobs of its generator. Questions are read as
text, so a file's items and generated ones are checked by the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import ClassVar

from adlm import registry
from adlm.errors import UserError, nearest
from adlm.reasoning.item import Item, normal
from adlm.values import Options


@dataclass(frozen=True)
class Task:
    """A kind of problem."""

    name: ClassVar[str]
    files: ClassVar[dict[str, str]]  # split -> file below the data folder
    stages: ClassVar[int]  # of a curriculum: as many as an item has steps or anchors
    removes: ClassVar[bool]  # does anchored chain-of-thought drop a step with each anchor?

    def anchors(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        """Return the important words of a trace, in order."""
        raise NotImplementedError

    def sound(self, question: str, trace: str, answer: str) -> bool:
        """Does the trace prove the answer, each of its steps by the question or the one before?"""
        raise NotImplementedError

    def same(self, answer: str, other: str) -> bool:
        """Are the two answers the same?"""
        return normal(answer) == normal(other)

    def make(self, random: Random) -> Item:
        """Make a problem."""
        raise UserError(f"the task {self.name} has no generator: give it files")

    def item(self, question: str, steps: tuple[str, ...], answer: str) -> Item:
        """Return a problem with its anchors; one whose answer does not follow is refused."""
        if not self.sound(question, " ".join(steps), answer):
            raise UserError(f"the answer '{answer}' does not follow from the steps")
        return Item(question, steps, answer, self.anchors(steps))


def make_task(name: str, knobs: Options | None = None) -> Task:
    """Return the task of that name, with the knobs of its generator.

    Example:
        >>> make_task("prosqa", {"nodes": 10}).nodes
        10
    """
    kind = registry.lookup("task", name)
    known = {f.name: f for f in fields(kind)}
    for knob, value in (knobs or {}).items():
        if knob not in known:
            raise UserError(f"the task {name} has no knob '{knob}'{nearest(knob, known)}")
        if type(value) is not type(known[knob].default) and not isinstance(value, int):
            kindly = type(known[knob].default).__name__
            raise UserError(f"the knob {knob} must be of type {kindly}, found {value!r}")
    return kind(**(knobs or {}))
