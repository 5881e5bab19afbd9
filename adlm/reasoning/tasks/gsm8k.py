"""GSM8K: school mathematics in words; a step is an equation <<48/2=24>>."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from adlm.errors import UserError
from adlm.reasoning.item import Item
from adlm.reasoning.tasks.base import Task
from adlm.registry import register

NUMBER = r"\d*\.?\d+"
WHOLE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"  # with thousands' commas


@register("task", "gsm8k")
@dataclass(frozen=True)
class GSM8K(Task):
    """It has no generator, hence no knobs.

    In one record of twenty of the public files the last equation is not yet the answer, so what a
    file's steps must do is only to be equations; `sound` of a model's trace asks for all.
    """

    name: ClassVar[str] = "gsm8k"
    files: ClassVar[dict[str, str]] = {
        "train": "gsm8k/train.jsonl",
        "valid": "gsm8k/icot_valid.txt",
        "test": "gsm8k/test.jsonl",
    }
    stages: ClassVar[int] = 2
    removes: ClassVar[bool] = False

    def anchors(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        """Return the different numbers of the trace."""
        return tuple(dict.fromkeys(re.findall(NUMBER, " ".join(steps))))

    def sound(self, question: str, trace: str, answer: str) -> bool:
        """Are all equations right, and is the last one's result the answer?"""
        found = equations(trace)
        return bool(found) and all(map(holds, found)) and number(found[-1][1]) == number(answer)

    def same(self, answer: str, other: str) -> bool:
        return number(answer) is not None and number(answer) == number(other)

    def item(self, question: str, steps: tuple[str, ...], answer: str) -> Item:
        if number(answer) is None:
            raise UserError(f"the answer must be a number, found '{answer}'")
        for step in steps:
            if len(equations(step)) != 1:
                raise UserError(f"a step must be an equation <<left=right>>, found '{step}'")
        return Item(question, steps, answer, self.anchors(steps))


def equations(text: str) -> list[tuple[str, str]]:
    """(left side, result) of every <<left=result>>, whatever the spacing.

    Example:
        >>> equations("<<1.5*2=3>> < < 3 + 4 = 7 > >")
        [('1.5*2', '3'), ('3+4', '7')]
    """
    found = re.findall(r"<<([^<>]*)=([^<>=]*)>>", tight(text))
    return [(left, right) for left, right in found]


def tight(text: str) -> str:
    """Return the text without spaces, except between two digits: "1 2" is two numbers, not 12.

    Example:
        >>> tight(" 1 , 200 + 1  2 ")
        '1,200+1 2'
    """
    return re.sub(r"(?<!\d) | (?!\d)", "", " ".join(text.split()))


def number(text: str) -> float | None:
    """Return the number that a text is, without thousands' commas and currency.

    Example:
        >>> number(" $1,200 "), number("1 2"), number("1,2"), number("many")
        (1200.0, None, None, None)
    """
    found = re.fullmatch(rf"(-?)\$?(-?)({NUMBER}|{WHOLE})%?\.?", tight(text))
    if not found or (found[1] and found[2]):
        return None
    return float("".join(found.groups()).replace(",", ""))


def holds(equation: tuple[str, str]) -> bool:
    """Is the left side's value the right side, up to rounding at its last digit?

    Example:
        >>> holds(("2+3*4", "14")), holds(("7/3", "2.33")), holds(("2+2", "5"))
        (True, True, False)
    """
    value, right = evaluate(equation[0]), number(equation[1])
    if value is None or right is None:
        return False
    digits = len(equation[1].partition(".")[2])
    return abs(value - right) <= 0.5 * 10.0**-digits + 1e-9


def evaluate(text: str) -> float | None:
    """Return the value of a sum of products, without Python's eval; None where it is none.

    Example:
        >>> evaluate("(16-3-4)*2"), evaluate("50%*1,200"), evaluate("1/0")
        (18.0, 600.0, None)
    """
    plain = re.sub(WHOLE, lambda found: found[0].replace(",", ""), text)
    plain = re.sub(rf"({NUMBER})%", r"(\1/100)", plain)
    tokens = re.findall(rf"{NUMBER}|[-+*/()]", plain)
    if "".join(tokens) != plain:
        return None
    try:
        value, rest = _sum(tokens)
    except (IndexError, ValueError, ZeroDivisionError, RecursionError):
        return None
    return None if rest else value


def _sum(tokens: list[str]) -> tuple[float, list[str]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        sign = 1 if tokens[0] == "+" else -1
        term, tokens = _product(tokens[1:])
        value += sign * term
    return value, tokens


def _product(tokens: list[str]) -> tuple[float, list[str]]:
    value, tokens = _atom(tokens)
    while tokens and tokens[0] in "*/":
        times = tokens[0] == "*"
        factor, tokens = _atom(tokens[1:])
        value = value * factor if times else value / factor
    return value, tokens


def _atom(tokens: list[str]) -> tuple[float, list[str]]:
    if tokens[0] == "(":
        value, tokens = _sum(tokens[1:])
        if tokens[0] != ")":
            raise ValueError
        return value, tokens[1:]
    if tokens[0] == "-":
        value, tokens = _atom(tokens[1:])
        return -value, tokens
    return float(tokens[0]), tokens[1:]
