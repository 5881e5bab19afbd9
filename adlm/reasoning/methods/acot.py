"""Anchored chain of thought: the important words of the trace first, then the rest.

    question [BOA] [ANT] x k [EOA] steps ### answer

The slots' inputs are placeholders, their labels the first k important tokens of the trace; a slot
beyond the last of them has no loss. The curriculum grows the anchors one by one:

    stage 0        chain of thought: no slot, all steps              per_stage epochs, or `first`
    stage k        k slots; with `remove` the first k steps are gone per_stage epochs
    last stage     as many slots as the task has stages (ProsQA 6)   the epochs that are left

Each stage starts with a new optimiser and a short warm-up, and the last lets the learning rate fall
to zero, as in all methods (reasoning/workload.py). `remove` is the task's own choice unless it is
given: the paper takes a step away with each anchor on ProsQA and keeps all on the other tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.data.vocab import Vocab
from adlm.reasoning.methods.base import Curriculum, Method, Stage
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

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        """Stage k has k slots, and k steps fewer with `remove`.

        Example:
            >>> for stage in ACoT().stages(Curriculum(stages=2, per_stage=3, epochs=10)):
            ...     print(stage.describe())
            3 epochs, 0 slots, 0 steps removed
            3 epochs, 1 slots, 1 steps removed
            4 epochs, 2 slots, 2 steps removed
        """
        lengths = enumerate(curriculum.lengths())
        return [Stage(epochs, k, k if self.remove else 0) for k, epochs in lengths]

    def slots(self, item: Pieces, stage: Stage, vocab: Vocab) -> Slots:
        """[BOA] and [EOA] around the stage's slots, labelled with the item's first anchors."""
        if not stage.slots:
            return Slots([], [], [])
        inner = [special(vocab, "[ANT]")] * stage.slots
        ids = [special(vocab, "[BOA]"), *inner, special(vocab, "[EOA]")]
        anchors = item.anchors[: stage.slots]
        labels = [IGNORE, *anchors, *([IGNORE] * (stage.slots - len(anchors))), IGNORE]
        return Slots(ids, labels, [False, *([self.feedback] * stage.slots), False])
