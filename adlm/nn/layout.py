"""Which position may see which: the one place that knows about causality, documents and padding.

A position sees another iff both lie in the same segment (and, when causal, the other is not later;
or not more than `reach` positions later, while a causal model's attention opens).
Padding is a segment of its own (-1), so it can never change what a real token sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.nn.cache import take


@dataclass(frozen=True)
class Layout:
    """Visibility of a batch.

    Example:
        >>> Layout(causal=True, segment=torch.tensor([[0, 0, 1]])).mask(3)[0, 0].int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """

    causal: bool
    segment: Tensor | None = None  # (B, P) segment number, -1 = padding; None = one full segment
    reach: int | None = None  # how far ahead a position sees, when not causal; None = all

    def mask(self, length: int, past: int = 0, device: torch.device | None = None) -> Tensor | None:
        """(B or 1, 1, L, P) bool: what L positions see of themselves and the `past` ones before.

        None where `causal` alone says it all.
        """
        if self.segment is None:
            if self.reach is None and not (self.causal and past and length > 1):
                return None
            every = torch.ones(1, 1, length, past + length, dtype=torch.bool, device=device)
            return every.tril(past + (self.reach or 0))
        past = self.segment.shape[1] - length
        same = self.segment[:, None, past:, None] == self.segment[:, None, None, :]  # (B, 1, L, P)
        return (
            same if not self.causal and self.reach is None else same.tril(past + (self.reach or 0))
        )

    def same_segment(self, offset: int, length: int) -> Tensor | None:
        """(B, L, 1) bool: do the last L positions l share their segments with l - offset?"""
        if self.segment is None:
            return None
        moved = torch.roll(self.segment, offset, dims=1)  # (B, P); what wraps round is cut by taps
        return (moved == self.segment)[:, -length:, None]

    def neighbours(self, x: Tensor, offsets: range, past: Tensor | None = None) -> Iterator[Tensor]:
        """For each offset, (B, L, D): x at l - offset, 0 where l does not see it.

        past: (B, K, D) what came before x, when decoding.
        """
        for offset, tap in zip(offsets, taps(x, offsets, past), strict=True):
            same = self.same_segment(offset, x.shape[1])
            if self.reach is not None and -offset > self.reach:
                tap = torch.zeros_like(tap)
            yield tap if same is None else tap * same

    def turns(self, start: int, end: int, device: torch.device) -> slice | Tensor:
        """Return which rotary angles the positions start to end have."""
        return slice(start, end)

    def places(self, start: int, end: int, device: torch.device) -> Tensor:
        """(L,) or (B, L) numbers of the positions start to end, counted without padding."""
        if self.segment is None:
            return torch.arange(start, end, device=device)
        real = (self.segment >= 0).cumsum(dim=1) - 1  # (B, P)
        return real.clamp(min=0)[:, start:end]


@dataclass(frozen=True)
class PartLayout(Layout):
    """A pass over some positions of rows whose other ones are remembered (`nn/cache.py`, RowCache).

    Example:
        >>> layout = PartLayout(False, at=torch.tensor([2, 0]), total=3)
        >>> layout.turns(0, 2, torch.device("cpu")).tolist()
        [2, 0]
    """

    at: Tensor | None = None  # (S,), or (B, S) where rows differ
    total: int = 0  # positions of a whole row

    def mask(self, length: int, past: int = 0, device: torch.device | None = None) -> Tensor | None:
        assert self.at is not None
        whole = super().mask(self.total, 0, device)  # (B or 1, 1, P, P)
        if whole is None:
            return None
        rows = whole[:, 0].expand(max(len(whole), len(self.at) if self.at.ndim > 1 else 1), -1, -1)
        return take(rows, self.at)[:, None]

    def neighbours(self, x: Tensor, offsets: range, past: Tensor | None = None) -> Iterator[Tensor]:
        """past: (B, P, D) the whole row, x among it; what is not passed is as it last was."""
        assert self.at is not None
        assert past is not None
        for tap in super().neighbours(past, offsets):
            yield take(tap, self.at)

    def turns(self, start: int, end: int, device: torch.device) -> slice | Tensor:
        assert self.at is not None
        return self.at

    def places(self, start: int, end: int, device: torch.device) -> Tensor:
        assert self.at is not None
        every = super().places(0, self.total, device)  # (P,) or (B, P)
        return every[self.at] if every.ndim == 1 else take(every, self.at)


def taps(x: Tensor, offsets: range, past: Tensor | None) -> Iterator[Tensor]:
    """For each offset, (B, L, D): x at l - offset, 0 beyond its ends (or `past` before them)."""
    length = x.shape[1]
    ahead, behind = -offsets[0], offsets[-1]
    padded = F.pad(x, (0, 0, behind, ahead))  # (B, behind + L + ahead, D)
    if past is not None and behind:
        padded = torch.cat((past[:, past.shape[1] - behind :], padded[:, behind:]), dim=1)
    for offset in offsets:
        yield padded[:, behind - offset : behind - offset + length]
