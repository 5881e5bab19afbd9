"""What the length of a row costs: -log p(n) for n = 1..L tokens,

    p(n) = (c_n + 1) / (c_1 + ... + c_L + L),

where c_n counts the rows of n tokens that the training documents make, each document starting a
row. Where nothing was counted all lengths are equally likely.

An autoregressive model predicts the end of a text with its tokens. A diffusion model that is shown
rows of documents sees how many positions there are before it predicts one, so its bound is one of
-log p(text | length); with -log p(length) added it bounds -log p(text), and the two kinds of model
can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adlm.data.cache import TokenStore
from adlm.data.pack import Rows

AT_ONCE = 1 << 20  # documents: a large corpus is counted without a copy of its ends


@dataclass(frozen=True)
class Lengths:
    """Counts of the training rows' lengths.

    Example:
        >>> known = Lengths(np.array([0, 3, 1]))
        >>> np.exp(-known.nats(np.array([1, 2, 3]))).round(3).tolist()
        [0.143, 0.571, 0.286]
    """

    counts: np.ndarray  # (L,) rows of 1..L tokens

    @classmethod
    def of(cls, store: TokenStore, length: int) -> Lengths:
        """Count the rows of documents that start a row each and go on in the next.

        Example:
            >>> Lengths.of(TokenStore(np.arange(9), np.array([2, 9]), 0, ""), 3).counts.tolist()
            [1, 1, 2]
        """
        counts, whole, last = np.zeros(length, dtype=np.int64), 0, 0
        for low in range(0, len(store.ends), AT_ONCE):
            ends = np.asarray(store.ends[low : low + AT_ONCE])
            tokens = np.diff(ends, prepend=last)  # (documents,)
            counts += np.bincount(tokens % length, minlength=length)
            whole, last = whole + int((tokens // length).sum()), int(ends[-1])
        return cls(np.append(counts[1:], whole))

    @classmethod
    def of_rows(cls, rows: Rows) -> Lengths:
        """Count the documents of some rows; of pairs, whose prompts are known, the answers."""
        if rows.given is None:
            return cls.of(rows.store, rows.length)
        return cls(np.bincount(rows.scored, minlength=rows.length + 1)[1:])

    @classmethod
    def unknown(cls, length: int) -> Lengths:
        """Return counts that make all lengths equally likely."""
        return cls(np.zeros(length, dtype=np.int64))

    def cut(self, length: int) -> Lengths:
        """Return the same for rows of at most `length` <= L tokens; longer rows count as that long.

        Example:
            >>> Lengths(np.array([1, 2, 3])).cut(2).counts.tolist()
            [1, 5]
        """
        return Lengths(np.append(self.counts[: length - 1], self.counts[length - 1 :].sum()))

    def nats(self, tokens: np.ndarray) -> np.ndarray:
        """Return -log p of each length."""
        p = (self.counts + 1) / (self.counts.sum() + len(self.counts))
        return -np.log(p[tokens - 1])

    def __str__(self) -> str:
        """Say how a length is coded, in a few words."""
        most = len(self.counts)
        if not self.counts.any():
            return f"all lengths from 1 to {most} equally likely"
        return f"add-one smoothed lengths of {self.counts.sum():,} training rows, 1 to {most}"
