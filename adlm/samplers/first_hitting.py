"""First-hitting sampling: the same distribution as ancestral sampling in the limit of many steps.

The times at which positions are written are independent and alike, so the next one is any of the
masked positions with equal chance: one position of each row a step, at most L network passes. A
time-agnostic denoiser needs to know no more. One that sees the noise level is told the time itself:
with n positions masked, 1 - alpha falls by the largest of n uniform numbers, which is independent
of where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adlm.registry import register
from adlm.samplers.base import Policy, Time, clock
from adlm.samplers.canvas import Canvas


@register("sampler", "first-hitting")
@dataclass(frozen=True)
class FirstHitting(Policy):
    """One uniformly chosen open position of each row a step, however many steps are asked for."""

    ragged: ClassVar[bool] = True

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        return clock(int(canvas.open.sum(dim=1).max()))

    def visible(self, canvas: Canvas, t: Time, s: Time) -> Tensor:
        largest = torch.where(canvas.open, canvas.chance, 0.0).amax(dim=1)
        return 1 - (1 - canvas.alpha) * largest

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        score = torch.where(canvas.open, canvas.chance, -1.0)
        first = score.argmax(dim=1, keepdim=True)  # (B, 1)
        canvas.fill(torch.zeros_like(canvas.open).scatter(1, first, True) & canvas.open)
