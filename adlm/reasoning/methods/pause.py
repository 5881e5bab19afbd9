"""Pause tokens: question, a few [PAUSE], answer. More computation, no more supervision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.reasoning.methods.base import ALL, Curriculum, Method, Stage
from adlm.reasoning.sequence import Slots
from adlm.reasoning.vocab import Pieces, special
from adlm.registry import register


@register("method", "pause")
@dataclass(frozen=True)
class Pause(Method):
    """Options.

    Attributes:
        tokens: Pauses after the question.
    """

    tokens: int = 6
    name: ClassVar[str] = "pause"

    def __post_init__(self) -> None:
        check(self.tokens >= 1, "tokens", self.tokens, "at least 1")

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        return [Stage(curriculum.epochs, slots=self.tokens, removed=ALL)]

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        return Slots.plain([special(vocab, "[PAUSE]")] * stage.slots)
