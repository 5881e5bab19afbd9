"""How much a network works in a pass: how often its middle blocks run, and how often all of it.

    loops    the blocks between the first and the last run S times; in training S ~ U{1..loops}
    recall   self-conditioning: all blocks run twice, and the second time what the first pass
             ended in is added to the input, W h_1 without a gradient into h_1

What a training step does is drawn from its own generator, so that a resumed run does the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from adlm.errors import UserError
from adlm.nn.config import ModelConfig, TrunkConfig


@dataclass(frozen=True)
class Effort:
    """What one pass does.

    Example:
        >>> Effort(loops=2).order(4)
        [0, 1, 2, 1, 2, 3]
    """

    loops: int = 1
    passes: int = 1

    def order(self, depth: int) -> list[int]:
        """Return the numbers of the blocks as they run."""
        inner = list(range(1, depth - 1))
        return [0, *inner * self.loops, depth - 1] if inner else list(range(depth))

    @classmethod
    def scored(cls, model: TrunkConfig) -> Effort:
        """Return what scoring and sampling do."""
        if not isinstance(model, ModelConfig):
            return cls()
        passes = model.recall_passes if model.recall else 1
        return cls(model.loops_scored or model.loops, passes)

    @classmethod
    def chosen(cls, model: ModelConfig, loops: int = 0, passes: int = 0) -> Effort:
        """Return what a user asks for; 0 = as the model says itself."""
        for name, given, has in (
            ("loops", loops, model.loops > 1),
            ("passes", passes, model.recall > 0),
        ):
            if given and not has:
                raise UserError(f"--{name} is for a model that was trained with it")
        own = cls.scored(model)
        return cls(loops or own.loops, passes or own.passes)

    @classmethod
    def drawn(cls, model: ModelConfig, generator: torch.Generator) -> Effort:
        """Draw what a training step does; nothing is drawn where there is no choice."""
        loops = passes = 1
        if model.loops > 1:
            loops = int(torch.randint(1, model.loops + 1, (), generator=generator))
        if model.recall:
            passes = 1 + int(torch.rand((), generator=generator) < model.recall)
        return cls(loops, passes)


def mean_loops(model: ModelConfig) -> float:
    """How often the middle blocks run in a training step, on average."""
    return (1 + model.loops) / 2
