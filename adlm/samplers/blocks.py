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

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        length = canvas.z.shape[1]
        seen = min(self.context or length, length)
        inner = make_policy(self.inner, self.schedule)
        for low in range(0, length, self.size):
            high = min(low + self.size, length)
            start = max(0, high - seen)
            canvas.focus(slice(low, high), slice(start, start + seen))
            if canvas.open.any():
                share = max(1, round(steps * (high - low) / length))
                yield from inner.times(canvas, share)

    def visible(self, canvas: Canvas, t: float, s: float) -> Tensor:
        return canvas.shown  # the time runs from 1 to 0 in every block

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        make_policy(self.inner, self.schedule).step(canvas, t, s)
