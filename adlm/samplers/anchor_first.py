"""Anchor-first sampling: positions that the anchor network is surest of are written first.

The denoiser draws the tokens; the anchor network only says where. What it was trained to predict,
the tokens that carry the meaning, appears first, and the rest is written around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.registry import register
from adlm.samplers.base import Time
from adlm.samplers.canvas import Canvas
from adlm.samplers.confidence import Confidence, sureness, surest


@register("sampler", "anchor-first")
@dataclass(frozen=True)
class AnchorFirst(Confidence):
    """Confidence sampling by the anchor network's confidence."""

    needs_anchors: ClassVar[bool] = True

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        waiting = canvas.open
        (sure,) = canvas.ask(
            lambda logits: (sureness(logits, canvas.mask, self.by),), waiting, anchor=True
        )
        canvas.fill(surest(waiting, sure, canvas.chance, t, s, self.threshold))
