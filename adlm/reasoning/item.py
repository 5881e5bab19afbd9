"""One problem: a question, the steps of its solution, and the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

# a run of #, a number (decimals too), a word, or one sign
WORD = r"#+|\d*\.?\d+|[^\W\d_]+|_|[^\w\s]"


@dataclass(frozen=True)
class Item:
    """A problem with its trace."""

    question: str
    steps: tuple[str, ...]
    answer: str
    anchors: tuple[str, ...] = ()  # important words of the trace, in order

    @property
    def trace(self) -> str:
        return " ".join(self.steps)


def words(text: str) -> list[str]:
    """Return the words and signs of a text, whatever its spacing.

    Example:
        >>> words("<<1.5*2=3>> Tom is a lempus.")
        ['<', '<', '1.5', '*', '2', '=', '3', '>', '>', 'Tom', 'is', 'a', 'lempus', '.']
    """
    return re.findall(WORD, text)


def sentences(text: str) -> list[list[str]]:
    """Return the text's sentences as words, without their full stops.

    Example:
        >>> sentences("Tom is a terpus. Every terpus is a brimpus.")
        [['Tom', 'is', 'a', 'terpus'], ['Every', 'terpus', 'is', 'a', 'brimpus']]
    """
    found: list[list[str]] = [[]]
    for word in words(text):
        if word == ".":
            found.append([])
        else:
            found[-1].append(word)
    return [s for s in found if s]


def normal(text: str) -> str:
    """Return what two answers are compared by."""
    return " ".join(words(text)).rstrip(" .")
