"""How often tokens occur in the training corpus: what some anchor rules are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from adlm.data.pack import Rows


@dataclass(frozen=True)
class CorpusCounts:
    """Counts over the training rows, in fp64."""

    tokens: Tensor  # (V,) occurrences
    rows: Tensor  # (V,) rows that have the token
    total: Tensor  # () rows

    @classmethod
    def count(cls, rows: Rows, vocab_size: int, chunk: int = 4096) -> CorpusCounts:
        """Count the training rows, a chunk at a time."""
        tokens, having = np.zeros(vocab_size), np.zeros(vocab_size)
        for low in range(0, len(rows), chunk):
            batch = rows.batch(np.arange(low, min(low + chunk, len(rows))))
            real = batch.valid if batch.filler is None else ~batch.filler
            x = torch.where(real, batch.x, -1).numpy()
            tokens += np.bincount(x[x >= 0], minlength=vocab_size)
            ordered = np.sort(x, axis=1)
            new = np.ones_like(ordered, dtype=bool)
            new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
            first = ordered[new]  # each token once a row
            having += np.bincount(first[first >= 0], minlength=vocab_size)
        made = (torch.from_numpy(tokens), torch.from_numpy(having))
        return cls(*made, torch.tensor(float(len(rows)), dtype=torch.float64))

    @classmethod
    def even(cls, vocab_size: int) -> CorpusCounts:
        """Return every token once, each in a row of its own: counts to try a rule on."""
        ones = torch.ones(vocab_size, dtype=torch.float64)
        return cls(ones, ones, torch.tensor(float(vocab_size), dtype=torch.float64))

    def to(self, device: torch.device | str) -> CorpusCounts:
        return CorpusCounts(*(t.to(device) for t in vars(self).values()))
