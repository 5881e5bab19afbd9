"""Anchored chain of thought: the important words of the trace first, then the rest.

    question [BOA] [ANT] x k [EOA] steps ### answer

The slots' inputs are placeholders, their labels the first k important tokens of the trace; a slot
beyond the last of them has no loss. Stage k has k slots, and k steps fewer where the task says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.data.vocab import Vocab
from adlm.reasoning.methods.base import Method, Schedule, Stage, curriculum
from adlm.reasoning.sequence import IGNORE, Slots
from adlm.reasoning.vocab import Pieces, special
from adlm.registry import register


@register("method", "acot")
@dataclass(frozen=True)
class ACoT(Method):
    """Options.

    Attributes:
        remove: Take one step away with each anchor that is added.
        feedback: Feed the hidden state before a slot back as its input, as a continuous thought.
    """

    remove: bool = True
    feedback: bool = False
    name: ClassVar[str] = "acot"

    def stages(self, schedule: Schedule) -> list[Stage]:
        return curriculum(schedule, slots=1, remove=self.remove)

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        if not stage.slots:
            return Slots([], [], [])
        inner = [special(vocab, "[ANT]")] * stage.slots
        ids = [special(vocab, "[BOA]"), *inner, special(vocab, "[EOA]")]
        anchors = item.anchors[: stage.slots]
        labels = [IGNORE, *anchors, *([IGNORE] * (stage.slots - len(anchors))), IGNORE]
        return Slots(ids, labels, [False, *([self.feedback] * stage.slots), False])
