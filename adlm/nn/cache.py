"""What a causal trunk remembers between calls: keys, values and the short convolution's inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class BlockCache:
    """The memory of one block."""

    k: Tensor | None = None  # (B, H, P, d) for the P positions seen so far
    v: Tensor | None = None
    tail: Tensor | None = None  # (B, taps - 1, D) last inputs of the short convolution

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new positions and return all of them."""
        if self.k is not None and self.v is not None:
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)
        self.k, self.v = k, v
        return k, v

    def slide(self, x: Tensor, taps: int) -> Tensor:
        """Return the inputs before x (zeros at the start) and remember the last taps - 1."""
        past = self.tail if self.tail is not None else x.new_zeros(len(x), taps - 1, x.shape[2])
        both = torch.cat((past, x), dim=1)
        self.tail = both[:, both.shape[1] - (taps - 1) :]
        return past


@dataclass
class Cache:
    """The memory of a whole trunk; `length` positions have been seen."""

    blocks: list[BlockCache] = field(default_factory=list)
    length: int = 0

    @classmethod
    def empty(cls, blocks: int) -> Cache:
        return cls([BlockCache() for _ in range(blocks)])

    def split(self, first: int) -> tuple[Cache, Cache]:
        """Views of the first blocks and of the rest, for two trunks in a row."""
        return Cache(self.blocks[:first], self.length), Cache(self.blocks[first:], self.length)
