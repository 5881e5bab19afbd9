"""What a trunk remembers between calls: keys, values and the short convolution's inputs.

A causal trunk remembers every position. In block diffusion a block is shown many times while it is
written (to a `select`ed copy, which is thrown away) and remembered when it is clean. A `RowCache`
has whole rows, of which later passes renew some positions and see the rest as it was.
"""

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

    def slide(self, x: Tensor, taps: int) -> Tensor | None:
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

    def select(self, rows: Tensor | None = None) -> Cache:
        """A copy for these rows, (N,), or all: what it is shown later is not remembered here."""

        def pick(kept: Tensor | None) -> Tensor | None:
            return kept if kept is None or rows is None else kept.index_select(0, rows)

        blocks = [BlockCache(pick(b.k), pick(b.v), pick(b.tail)) for b in self.blocks]
        return Cache(blocks, self.length)

    def forget(self, keep: int) -> None:
        """Forget the keys and values of all positions but the last `keep`."""
        for block in self.blocks:
            if block.k is not None and block.v is not None:
                first = max(0, block.k.shape[2] - keep)
                block.k, block.v = block.k[:, :, first:], block.v[:, :, first:]

    @property
    def kept(self) -> int:
        """How many positions have keys and values here."""
        k = self.blocks[0].k if self.blocks else None
        return 0 if k is None else k.shape[2]

    def split(self, first: int) -> tuple[Cache, Cache]:
        """Views of the first blocks and of the rest, for two trunks in a row."""
        return Cache(self.blocks[:first], self.length), Cache(self.blocks[first:], self.length)


@dataclass
class RowBlock(BlockCache):
    """The memory of whole rows in one block; a pass is shown the positions `at` of them."""

    at: Tensor | None = None  # (S,), or (B, S) where rows differ; None: all

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Renew the positions of this pass and return those of the whole row."""
        if self.at is None or self.k is None or self.v is None:
            self.k, self.v = k.contiguous(), v
            return k, v
        put(self.k.transpose(1, 2), self.at, k.transpose(1, 2))
        put(self.v.transpose(1, 2), self.at, v.transpose(1, 2))
        return self.k, self.v

    def slide(self, x: Tensor, taps: int) -> Tensor | None:
        """Renew the convolution's inputs and return those of the whole row, (B, P, D)."""
        if self.at is None or self.tail is None:
            self.tail = x
            return None
        put(self.tail, self.at, x)
        return self.tail


@dataclass
class RowCache:
    """The memory of all rows of a canvas in a whole model."""

    blocks: list[RowBlock]

    def part(self, rows: Tensor | None, at: Tensor | None) -> Cache:
        """What a pass of some rows, (n,), or all, and of their positions `at` is shown."""

        def pick(kept: Tensor | None) -> Tensor | None:
            return kept if kept is None or rows is None else kept.index_select(0, rows)

        return Cache([RowBlock(pick(b.k), pick(b.v), pick(b.tail), at) for b in self.blocks])

    def merge(self, rows: Tensor | None, part: Cache, total: int) -> None:
        """Remember what a pass has renewed, of `total` rows."""
        for mine, new in zip(self.blocks, part.blocks, strict=True):
            for name in ("k", "v", "tail"):
                kept, found = getattr(mine, name), getattr(new, name)
                if rows is not None and found is not None:
                    kept = found.new_zeros(total, *found.shape[1:]) if kept is None else kept
                    kept[rows] = found
                    found = kept
                setattr(mine, name, found)


def take(x: Tensor, at: Tensor) -> Tensor:
    """Of (B, P, ...) the positions at, (S,) or (B, S): (B, S, ...)."""
    return x[:, at] if at.ndim == 1 else x[torch.arange(len(x), device=x.device)[:, None], at]


def put(x: Tensor, at: Tensor, new: Tensor) -> None:
    """Write new, (B, S, ...), to the positions at of x, (B, P, ...)."""
    if at.ndim == 1:
        x[:, at] = new
    else:
        x[torch.arange(len(x), device=x.device)[:, None], at] = new
