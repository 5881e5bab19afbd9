"""Sampling from block diffusion (BD3-LM): blocks from left to right, any policy inside each.

A finished block is clean and sees no later one, so its keys and values never change: one more pass
remembers them, exactly, and each step passes one block instead of the row. A block sees what is
before it and itself, so a hole left of given text is filled without knowing it. A text may be
longer than a trained row: a block then sees as many tokens as one has, a window that moves along.

(The sampler `blocks` is another thing: it writes block by block with a model of whole rows, which
sees the masks to the right and is passed in full.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from adlm import device as devices
from adlm.models.denoiser import States
from adlm.nn.cache import Cache
from adlm.nn.context import Context
from adlm.samplers.base import Policy
from adlm.samplers.canvas import Canvas


@dataclass
class BlockCanvas(Canvas):
    """A canvas of which one block is in focus, seen after the clean blocks before it.

    `cached=False` passes those again each time: the tested reference.
    """

    cached: bool = True
    finished: Cache = field(init=False)  # keys and values of the blocks before

    def __post_init__(self) -> None:
        super().__post_init__()
        self.finished = self.model.new_cache()

    def enter(self, low: int, high: int) -> None:
        """Turn to a block, in which the time runs from 1 to 0 anew."""
        self.alpha = torch.zeros_like(self.alpha)
        self.focus(slice(low, high), slice(low if self.cached else 0, high))

    def states(self, rows: Tensor, seen: Tensor, context: Context) -> States:
        """Pass the block; nothing of it is remembered."""
        sigma = context.sigma
        if self.cached:
            every = len(rows) == len(self.z)
            before = self.finished.select(None if every else rows.to(self.device))
            return self.model(seen, replace(context, cache=before))
        if sigma is not None:  # what is before the block is clean
            place = torch.arange(seen.shape[1], device=self.device)
            sigma = sigma[:, None] * (place >= self.block.start)
        return self.model(seen, replace(context, sigma=sigma))

    def remember(self, end: int) -> None:
        """Have the keys and values of all positions before `end`, which are final."""
        if not self.cached or end == self.finished.length:
            return
        seen = self.z[:, self.finished.length : end].to(self.device)
        nothing = torch.zeros_like(seen, dtype=torch.bool)  # no state is asked for
        with torch.no_grad(), devices.autocast(self.precision, self.device):
            self.model(seen, Context(cache=self.finished, wanted=nothing))
        self.finished.forget(self.model.window - self.model.block)
        self.nfe += 1
        self.passed += seen.shape[1]
        self.anchors_passed += seen.shape[1]


@dataclass(frozen=True)
class EachBlock(Policy):
    """A policy that writes one block of the model after the other; steps are those of all."""

    inner: Policy

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        assert isinstance(canvas, BlockCanvas)
        length, block = canvas.z.shape[1], canvas.model.block
        for low in range(0, length, block):
            high = min(low + block, length)
            canvas.enter(low, high)
            if canvas.open.any():
                canvas.remember(low)
                yield from self.inner.times(canvas, max(1, round(steps * (high - low) / length)))

    def visible(self, canvas: Canvas, t: float, s: float) -> Tensor:
        return self.inner.visible(canvas, t, s)

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        self.inner.step(canvas, t, s)
