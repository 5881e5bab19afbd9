"""Coconut: continuous thoughts take the place of steps.

Stage k lacks the first k steps (the last stage all) and has `per_step` * k thoughts instead. A
thought's input is the hidden state of the position before it; nothing supervises it but what comes
after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.reasoning.methods.base import Curriculum, Method, Stage
from adlm.reasoning.sequence import IGNORE, Slots
from adlm.reasoning.vocab import Pieces, special
from adlm.registry import register


@register("method", "coconut")
@dataclass(frozen=True)
class Coconut(Method):
    """Options.

    Attributes:
        per_step: Thoughts that take a step's place.
        feedback: Feed hidden states back; without it a thought is a plain token (Coconut's "pause
            as thought").
    """

    per_step: int = 1
    feedback: bool = True
    name: ClassVar[str] = "coconut"

    def __post_init__(self) -> None:
        check(self.per_step >= 1, "per_step", self.per_step, "at least 1")

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        each = zip(curriculum.lengths(), curriculum.fewer_steps(), strict=True)
        return [Stage(epochs, k * self.per_step, gone) for k, (epochs, gone) in enumerate(each)]

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        if not stage.slots:
            return Slots([], [], [])
        inner = [special(vocab, "[THOUGHT]")] * stage.slots
        ids = [special(vocab, "[BOT]"), *inner, special(vocab, "[EOT]")]
        thoughts = [False, *([self.feedback] * stage.slots), False]
        return Slots(ids, [IGNORE] * len(ids), thoughts)
