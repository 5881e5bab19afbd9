"""Locked-in ancestral sampling (MDLM): a masked position is written with probability

    (alpha_s - alpha_t) / (1 - alpha_t),

and what is written stays.
"""

from __future__ import annotations

import torch

from adlm.process.schedule import Schedule
from adlm.registry import register
from adlm.samplers.base import Canvas


@register("sampler", "ancestral")
class Ancestral:
    """The reverse process of the training schedule."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        alpha_t, alpha_s = self.schedule.alpha(torch.tensor([t, s], dtype=torch.float64)).tolist()
        chance = (alpha_s - alpha_t) / (1 - alpha_t)
        chosen = canvas.open & (canvas.chance < chance)
        if chosen.any():
            canvas.write(chosen, *canvas.propose(chosen))
