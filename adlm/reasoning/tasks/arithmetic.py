"""Multi-step arithmetic on small numbers, in GSM8K's equation form: a task for laptops."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from adlm.config import check
from adlm.reasoning.item import Item, words
from adlm.reasoning.tasks.base import Task
from adlm.reasoning.tasks.gsm8k import GSM8K, equations, holds, number
from adlm.registry import register

NAMES = words("Ann Ben Cleo Dan Ella Finn Gina Hugo")
THINGS = words("pens books coins cards shells stamps apples stones")
GAIN = ("{who} finds {n} more.", "{who} buys {n} more.", "{who} is given {n} more.")
LOSS = ("{who} loses {n}.", "{who} gives {n} away.", "{who} sells {n}.")
GROW = ("Then there are {n} times as many.",)


@register("task", "arithmetic")
@dataclass(frozen=True)
class Arithmetic(Task):
    """The knobs of the generator.

    Attributes:
        least: Fewest steps of a solution.
        most: Most steps of a solution.
        limit: Largest number that occurs.
    """

    least: int = 3
    most: int = 5
    limit: int = 30
    name: ClassVar[str] = "arithmetic"
    files: ClassVar[dict[str, str]] = {}
    stages: ClassVar[int] = 5
    removes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(1 <= self.least <= self.most, "least", self.least, "at least 1 and at most `most`")
        check(self.limit >= 4, "limit", self.limit, "at least 4")

    anchors = GSM8K.anchors
    same = GSM8K.same

    def sound(self, question: str, trace: str, answer: str) -> bool:
        """Right equations: the story's numbers in order, each with the result before it."""
        found = equations(trace)
        given = [w for w in words(question) if w.isdigit()]
        if not found or not all(map(holds, found)) or number(found[-1][1]) != number(answer):
            return False
        before = [given[0] if given else "", *(right for _, right in found)]
        terms = zip(found, before, given[1:], strict=False)
        used = [left in (f"{b}+{n}", f"{b}-{n}", f"{b}*{n}") for (left, _), b, n in terms]
        return len(found) == len(given) - 1 and all(used)

    def make(self, random: Random) -> Item:
        who, things = random.choice(NAMES), random.choice(THINGS)
        value = random.randint(2, self.limit // 2)
        told, steps = [f"{who} has {value} {things}."], []
        for _ in range(random.randint(self.least, self.most)):
            sign, n = self.operation(value, random)
            result = {"+": value + n, "-": value - n, "*": value * n}[sign]
            said = random.choice({"+": GAIN, "-": LOSS, "*": GROW}[sign])
            told.append(said.format(who=who, n=n))
            steps.append(f"<<{value}{sign}{n}={result}>>")
            value = result
        question = f"{' '.join(told)} How many {things} has {who}?"
        return self.item(question, tuple(steps), str(value))

    def operation(self, value: int, random: Random) -> tuple[str, int]:
        """Return a sign and a number that keep the result in [1, limit]."""
        able = {"+": range(1, self.limit - value + 1), "-": range(1, value)}
        able["*"] = range(2, self.limit // value + 1)
        sign = random.choice([s for s, numbers in able.items() if numbers])
        return sign, random.choice(able[sign])
