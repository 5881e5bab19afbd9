"""First-hitting sampling: the same distribution as ancestral sampling in the limit of many steps.

The times at which positions are written are independent and alike, so the next one is any of the
masked positions with equal chance. A time-agnostic denoiser needs to know no more: one position of
each row a step, at most L network passes.
"""

from __future__ import annotations

import torch

from adlm.process.schedule import Schedule
from adlm.registry import register
from adlm.samplers.base import Canvas


@register("sampler", "first-hitting")
class FirstHitting:
    """One uniformly chosen open position of each row a step; the clock is not looked at."""

    def __init__(self, schedule: Schedule):
        pass

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        score = torch.where(canvas.open, canvas.chance, -1.0)
        first = score.argmax(dim=1, keepdim=True)  # (B, 1)
        chosen = torch.zeros_like(canvas.open).scatter(1, first, True) & canvas.open
        if chosen.any():
            canvas.write(chosen, *canvas.propose(chosen))
