"""Tokens that lie in several files, read as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Parts:
    """Several arrays end to end, of which nothing is copied but what is asked for.

    Example:
        >>> parts = Parts([np.array([5, 6, 7]), np.array([8, 9])])
        >>> len(parts), parts[1:4].tolist(), parts[np.array([[4, 0], [2, 3]])].tolist()
        (5, [6, 7, 8], [[9, 5], [7, 8]])
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = arrays
        self.ends = np.cumsum([len(a) for a in arrays])  # (parts,)
        self.dtype = arrays[0].dtype

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: Any) -> np.ndarray:
        """Return the tokens of a slice or of an array of places."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        place = np.asarray(index)
        flat = place.ravel()
        part = np.searchsorted(self.ends, flat, side="right")
        out = np.empty(len(flat), dtype=self.dtype)
        turns = np.flatnonzero(np.diff(part)) + 1  # rows lie in one part or two: few turns
        for low, high in zip([0, *turns], [*turns, len(flat)], strict=True):
            if low < high:
                array = self.arrays[part[low]]
                out[low:high] = array[flat[low:high] - (self.ends[part[low]] - len(array))]
        return out.reshape(place.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all of it in memory."""
        return np.concatenate(self.arrays).astype(dtype or self.dtype, copy=False)
