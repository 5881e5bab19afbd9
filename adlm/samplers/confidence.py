"""Confidence sampling: of the tokens proposed at all open positions, the surest are written.

Each step writes an equal part of what is open. Fewer steps, better-looking text, less variety: it
does not sample the model's distribution.
"""

from __future__ import annotations

import torch

from adlm.process.schedule import Schedule
from adlm.registry import register
from adlm.samplers.base import Canvas


@register("sampler", "confidence")
class Confidence:
    """Write the proposals with the highest probability first."""

    def __init__(self, schedule: Schedule):
        pass

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        waiting = canvas.open
        if not waiting.any():
            return
        tokens, probability = canvas.propose(waiting)
        count = torch.ceil(waiting.sum(dim=1, keepdim=True) * (1 - s / t)).long()  # (B, 1)
        score = torch.full(waiting.shape, -1.0, dtype=torch.float64, device=waiting.device)
        score[waiting] = probability
        rank = score.argsort(dim=1, descending=True).argsort(dim=1)
        chosen = waiting & (rank < count)
        keep = chosen[waiting]
        canvas.write(chosen, tokens[keep], probability[keep])
