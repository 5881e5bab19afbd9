"""Locked-in ancestral sampling (MDLM): a masked position is written with probability

    (alpha_s - alpha_t) / (1 - alpha_t),

and what is written stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.registry import register
from adlm.samplers.base import Policy, Time
from adlm.samplers.canvas import Canvas


@register("sampler", "ancestral")
@dataclass(frozen=True)
class Ancestral(Policy):
    """The reverse process of the training schedule."""

    ragged: ClassVar[bool] = True

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        canvas.fill(canvas.open & (canvas.chance < self.transition(t, s).unmask()))
