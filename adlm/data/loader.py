"""Which rows make up the global batch of a step: a pure function of (seed, step).

There is no state to save. A run resumes at the exact batch by asking for its step, and a rank
takes its slice of the same global batch whatever the number of ranks.
"""

from __future__ import annotations

import numpy as np


class Order:
    """Endless shuffled passes over `rows` rows, cut into batches.

    Example:
        >>> order = Order(rows=4, batch=3, seed=0)
        >>> sorted(np.concatenate([order.step(s) for s in range(4)]).tolist())
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    """

    def __init__(self, rows: int, batch: int, seed: int):
        self.rows, self.batch, self.seed = rows, batch, seed
        self._epoch = -1
        self._permutation = np.empty(0, dtype=np.int64)

    def step(self, step: int) -> np.ndarray:
        """Return the row numbers of the global batch of a step, from 0: (batch,)."""
        place = np.arange(step * self.batch, (step + 1) * self.batch)
        epochs, within = np.divmod(place, self.rows)
        parts = [
            self.permutation(int(e))[within[epochs == e]] for e in range(epochs[0], epochs[-1] + 1)
        ]
        return np.concatenate(parts)

    def permutation(self, epoch: int) -> np.ndarray:
        """Return the order of one pass: (rows,)."""
        if epoch != self._epoch:
            bits = np.random.Philox(key=[self.seed, epoch])
            self._permutation = np.random.Generator(bits).permutation(self.rows)
            self._epoch = epoch
        return self._permutation


def share(batch: int, rank: int, world: int) -> slice:
    """Return the rows of a global batch that a rank works on.

    Example:
        >>> [share(5, r, 2) for r in range(2)]
        [slice(0, 3, None), slice(3, 5, None)]
    """
    size, extra = divmod(batch, world)
    start = rank * size + min(rank, extra)
    return slice(start, start + size + (rank < extra))
