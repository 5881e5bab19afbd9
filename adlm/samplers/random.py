"""Randomness by row: what is drawn for a row does not depend on the rows beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


class RowRandom:
    """One generator for each row, seeded by (seed, row number).

    Example:
        >>> both, second = RowRandom(3, range(2)), RowRandom(3, range(1, 2))
        >>> torch.equal(both.uniform(4)[1], second.uniform(4)[0])
        True
    """

    def __init__(self, seed: int, rows: Sequence[int]):
        self.generators = [
            torch.Generator().manual_seed((seed * 1_000_003 + row) % 2**63) for row in rows
        ]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int]]) -> RowRandom:
        """Return the randomness of rows that have a (seed, row number) of their own each."""
        made = cls(0, ())
        made.generators = [g for seed, row in rows for g in cls(seed, (row,)).generators]
        return made

    def uniform(self, length: int) -> Tensor:
        """(B, length) fp64 in [0, 1)."""
        draws = [torch.rand(length, generator=g, dtype=torch.float64) for g in self.generators]
        return torch.stack(draws)

    def pairs(self, lengths: Sequence[int]) -> Tensor:
        """(2, B, L) the numbers that `uniform(2 * length)` has for each row; 0 behind its end."""
        made = torch.zeros(2, len(lengths), max(lengths), dtype=torch.float64)
        for row, (length, g) in enumerate(zip(lengths, self.generators, strict=True)):
            made[:, row, :length] = torch.rand(2, length, generator=g, dtype=torch.float64)
        return made
