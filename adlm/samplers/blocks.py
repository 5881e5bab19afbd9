"""Semi-autoregressive sampling: block after block from left to right, to any length.

Inside a block another sampler works. The network sees the trained length: as long as the text fits,
all of it; beyond, a window that ends with the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from adlm import registry
from adlm.config import Config, check
from adlm.errors import UserError
from adlm.registry import register
from adlm.samplers.base import Policy, make_policy
from adlm.samplers.canvas import Canvas


@dataclass(frozen=True)
class InBlocks(Policy):
    """A policy that writes one block of `size` tokens after the other; steps are those of all."""

    inner: Policy
    size: int
    context: int = 0  # tokens that the network sees; 0: the whole canvas

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        length = canvas.z.shape[1]
        seen = min(self.context or length, length)
        for low in range(0, length, self.size):
            high = min(low + self.size, length)
            start = max(0, high - seen)
            canvas.focus(slice(low, high), slice(start, start + seen))
            if (canvas.free if canvas.kernel.uniform else canvas.open).any():
                share = max(1, round(steps * (high - low) / length))
                yield from self.inner.times(canvas, share)

    def visible(self, canvas: Canvas, t: float, s: float) -> Tensor:
        return canvas.shown  # the time runs from 1 to 0 in every block

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        self.inner.step(canvas, t, s)


@register("sampler", "blocks")
@dataclass(frozen=True)
class Blocks(Policy):
    """`size` tokens a block, each written by the sampler `inner`; steps are those of all blocks."""

    size: int = 16
    inner: str = "ancestral"
    context: int = 0  # tokens that the network sees; 0: the whole canvas

    def __post_init__(self) -> None:
        check(self.size >= 1, "--policy.size", self.size, "at least 1")
        most = self.context or self.size
        check(self.size <= most, "--policy.size", self.size, f"at most the context, {most}")
        if self.inner == "blocks":
            raise UserError("--policy.inner must be another sampler than blocks")

    @classmethod
    def serves(cls, config: Config) -> bool:
        in_blocks = registry.lookup("objective", config.objective).in_blocks  # of its own
        return super().serves(config) and not in_blocks

    @property
    def each(self) -> InBlocks:
        """The inner sampler, block after block."""
        inner = make_policy(self.inner, self.schedule)
        return InBlocks(self.schedule, inner, self.size, self.context)

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        return self.each.times(canvas, steps)

    def visible(self, canvas: Canvas, t: float, s: float) -> Tensor:
        return self.each.visible(canvas, t, s)

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        self.each.step(canvas, t, s)
