"""Which position may see which: the one place that knows about causality, documents and padding.

A position sees another iff both lie in the same segment (and, when causal, the other is not later).
Padding is a segment of its own (-1), so it can never change what a real token sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Visibility of a batch.

    Example:
        >>> Layout(causal=True, segment=torch.tensor([[0, 0, 1]])).mask(3)[0, 0].int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """

    causal: bool
    segment: Tensor | None = None  # (B, P) segment number, -1 = padding; None = one full segment

    def mask(self, length: int) -> Tensor | None:
        """(B, 1, L, P) bool: what the last L of P positions see (P > L when decoding with a cache).

        None where `causal` alone says it all.
        """
        if self.segment is None:
            return None
        past = self.segment.shape[1] - length
        same = self.segment[:, None, past:, None] == self.segment[:, None, None, :]  # (B, 1, L, P)
        return same.tril(past) if self.causal else same

    def same_segment(self, offset: int, length: int) -> Tensor | None:
        """(B, L, 1) bool: do the last L positions l share their segments with l - offset?"""
        if self.segment is None:
            return None
        moved = torch.roll(self.segment, offset, dims=1)  # (B, P); what wraps round is cut by conv
        return (moved == self.segment)[:, -length:, None]

    def places(self, start: int, end: int, device: torch.device) -> Tensor:
        """(L,) or (B, L) numbers of the positions start to end, counted without padding."""
        if self.segment is None:
            return torch.arange(start, end, device=device)
        real = (self.segment >= 0).cumsum(dim=1) - 1  # (B, P)
        return real.clamp(min=0)[:, start:end]
