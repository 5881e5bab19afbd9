"""Small Bayesian networks to sample from: line, tree and star over K-valued variables.

Each variable depends on one parent (d = 1), so its conditional table has K^(d+1) entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Network:
    """x^l ~ table_l[x^{parent(l)}]; variables are listed parents first."""

    name: str
    parents: tuple[int, ...]  # -1 = root
    tables: np.ndarray  # (L, K, K): tables[l, parent value] is a distribution; a root uses row 0

    @property
    def length(self) -> int:
        return len(self.parents)

    @property
    def values(self) -> int:
        return self.tables.shape[1]

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """(count, L) independent draws."""
        x = np.zeros((count, self.length), dtype=np.int64)
        for position, parent in enumerate(self.parents):
            row = x[:, parent] if parent >= 0 else np.zeros(count, dtype=np.int64)
            edges = self.tables[position].cumsum(axis=1)[row]  # (count, K)
            x[:, position] = (generator.random((count, 1)) > edges).sum(axis=1)
        return x.clip(max=self.values - 1)

    def log_p(self, x: np.ndarray) -> np.ndarray:
        """log p of each row of x: (N, L) -> (N,)."""
        total = np.zeros(len(x))
        for position, parent in enumerate(self.parents):
            row = x[:, parent] if parent >= 0 else np.zeros(len(x), dtype=np.int64)
            total += np.log(self.tables[position, row, x[:, position]])
        return total

    def everything(self) -> np.ndarray:
        """Return all K^L sequences."""
        grid = np.indices((self.values,) * self.length)
        return grid.reshape(self.length, -1).T


SHAPES = {
    "line": lambda n: tuple(range(-1, n - 1)),
    "tree": lambda n: tuple((i - 1) // 2 if i else -1 for i in range(n)),
    "star": lambda n: tuple(0 if i else -1 for i in range(n)),
}


def make(shape: str, length: int, values: int, seed: int) -> Network:
    """Return a network of that shape with random tables.

    Example:
        >>> make("tree", 5, 2, seed=0).parents
        (-1, 0, 0, 1, 1)
    """
    generator = np.random.default_rng(seed)
    tables = generator.dirichlet(np.full(values, 0.7), size=(length, values))
    return Network(shape, SHAPES[shape](length), 0.98 * tables + 0.02 / values)
