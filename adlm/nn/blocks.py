"""The layout of block diffusion: blocks of tokens, each sees itself and those before it.

In training the input is [z ; x], L noisy positions and the same L clean ones, under one mask:

    noisy block b sees itself and the clean blocks before b
    clean block b sees the clean blocks up to b

Both halves have the positions 0 to L - 1. In sampling the finished blocks are clean, so a row whose
last block is noisy needs the second rule alone; `paired` tells the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from adlm.nn.layout import Layout


@dataclass(frozen=True)
class BlockLayout(Layout):
    """Visibility of rows in blocks.

    Example:
        >>> BlockLayout(block=2).mask(4)[0, 0].int().tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
        >>> BlockLayout(block=1, paired=True).mask(4)[0, 0].int().tolist()
        [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    """

    causal: bool = False
    segment: Tensor | None = None  # (B, P) of the tokens: one half of a paired input
    block: int = 1  # tokens in a block
    paired: bool = False  # is the input [z ; x]?
    window: int = 0  # a block sees so many tokens, its own among them; 0 = all before it

    def mask(self, length: int, past: int = 0, device: torch.device | None = None) -> Tensor | None:
        if self.segment is None and not self.paired and length <= self.block:
            return None  # one block, which sees itself and all that is kept
        make = visible.__wrapped__ if torch.compiler.is_compiling() else visible  # it keeps its own
        rule = make(length, past, self.block, self.paired, self.window, device)
        if self.segment is None:
            return rule
        segment = self.segment.repeat(1, 2) if self.paired else self.segment  # (B, P)
        return rule & (segment[:, None, past:, None] == segment[:, None, None, :])

    def neighbours(self, x: Tensor, offsets: range, past: Tensor | None = None) -> Iterator[Tensor]:
        if not self.paired:
            for offset, tap in zip(offsets, super().neighbours(x, offsets, past), strict=True):
                yield tap * (self.ahead(offset, tap) <= 0)
            return
        noisy, clean = (super(BlockLayout, self).neighbours(h, offsets) for h in x.chunk(2, dim=1))
        for offset, own, before in zip(offsets, noisy, clean, strict=True):
            ahead = self.ahead(offset, own)
            inside = torch.where(ahead == 0, own, before)
            yield torch.cat((inside * (ahead <= 0), before * (ahead <= 0)), dim=1)

    def ahead(self, offset: int, x: Tensor) -> Tensor:
        """(L, 1): how many blocks l - offset is after l, for the positions of x: (B, L, D)."""
        place = torch.arange(x.shape[1], device=x.device)[:, None]
        there = (place - offset).div(self.block, rounding_mode="floor")
        return there - place // self.block

    def turns(self, start: int, end: int, device: torch.device) -> slice | Tensor:
        if not self.paired:
            return slice(start, end)
        return torch.arange((end - start) // 2, device=device).repeat(2)

    def places(self, start: int, end: int, device: torch.device) -> Tensor:
        if not self.paired:
            return super().places(start, end, device)
        half = super().places(0, (end - start) // 2, device)
        return torch.cat((half, half), dim=-1)


@lru_cache(maxsize=16)
def visible(
    length: int, past: int, block: int, paired: bool, window: int, device: torch.device | None
) -> Tensor:
    """(1, 1, L, P) bool: the rule without segments; the same for every step, so it is kept."""
    tokens = past + (length // 2 if paired else length)
    place = torch.arange(tokens, device=device)
    row, column = place[past:, None] // block, place[None, :] // block
    clean = column <= row  # (L, P)
    if window:
        clean &= place[None, :] >= (row + 1) * block - window
    if paired:
        noisy = torch.cat((column == row, clean & (column < row)), dim=1)
        clean = torch.cat((noisy, torch.cat((torch.zeros_like(clean), clean), dim=1)))
    return clean[None, None]
