"""Which rows make up the global batch of a step: a pure function of (seed, step).

There is no state to save. A run resumes at the exact batch by asking for its step, and a rank
takes its slice of the same global batch whatever the number of ranks.

A pass over up to MANY rows is a shuffled array of their numbers. Over more it is a keyed
permutation, computed for the rows that are asked for: nothing is held and nothing prepared. A run
keeps the way it began with: its checkpoints name it, and those that do not are of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np

MANY = 1 << 20  # rows: 8 MB of their numbers
ROUNDS = 8
T = TypeVar("T")


def way(rows: int) -> str:
    """Return how a new run shuffles so many rows: array or keyed."""
    return "array" if rows <= MANY else "keyed"


class Order:
    """Endless shuffled passes over `rows` rows, cut into batches.

    Example:
        >>> order = Order(rows=4, batch=3, seed=0)
        >>> sorted(np.concatenate([order.step(s) for s in range(4)]).tolist())
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    """

    def __init__(self, rows: int, batch: int, seed: int, shuffle: str | None = None):
        self.rows, self.batch, self.seed = rows, batch, seed
        self.shuffle = shuffle or way(rows)
        self._epoch = -1
        self._permutation = np.empty(0, dtype=np.int64)

    def step(self, step: int) -> np.ndarray:
        """Return the row numbers of the global batch of a step, from 0: (batch,)."""
        place = np.arange(step * self.batch, (step + 1) * self.batch)
        epochs, within = np.divmod(place, self.rows)
        parts = [self.passed(int(e), within[epochs == e]) for e in range(epochs[0], epochs[-1] + 1)]
        return np.concatenate(parts)

    def passed(self, epoch: int, place: np.ndarray) -> np.ndarray:
        """Return the rows at some places of one pass."""
        if self.shuffle == "keyed":
            return permuted(place, self.rows, self.seed, epoch)
        return self.permutation(epoch)[place]

    def permutation(self, epoch: int) -> np.ndarray:
        """Return the order of one pass: (rows,)."""
        if epoch != self._epoch:
            bits = np.random.Philox(key=[self.seed, epoch])
            self._permutation = np.random.Generator(bits).permutation(self.rows)
            self._epoch = epoch
        return self._permutation


def permuted(place: np.ndarray, rows: int, seed: int, epoch: int) -> np.ndarray:
    """Return where a keyed permutation of 0..rows - 1 takes some places.

    A Feistel network permutes 0..2^k - 1, the least power of two that holds all rows: in turn each
    half of the bits is xored with a keyed hash of the other. What falls beyond the rows goes
    through it again until it falls within (cycle walking), fewer than two times on average.

    Example:
        >>> sorted(permuted(np.arange(10), 10, seed=0, epoch=0).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    keys = np.random.Philox(key=[seed, epoch]).random_raw(ROUNDS)
    bits = max(2, (rows - 1).bit_length())
    out = np.array(place, dtype=np.uint64)
    walking = np.arange(len(out))
    while len(walking):
        out[walking] = feistel(out[walking], keys, bits)
        walking = walking[out[walking] >= rows]
    return out.astype(np.int64)


def feistel(x: np.ndarray, keys: np.ndarray, bits: int) -> np.ndarray:
    """Permute numbers of `bits` bits, (N,) uint64, by a Feistel network of unequal halves."""
    low = np.uint64(bits // 2)
    right, left = x & ((np.uint64(1) << low) - np.uint64(1)), x >> low
    sizes = (low, np.uint64(bits) - low)
    for number, key in enumerate(keys):
        if number % 2:
            left = left ^ (mixed(right ^ key) >> (np.uint64(64) - sizes[1]))
        else:
            right = right ^ (mixed(left ^ key) >> (np.uint64(64) - sizes[0]))
    return (left << low) | right


def mixed(x: np.ndarray) -> np.ndarray:
    """Hash numbers of 64 bits so that each bit depends on all: SplitMix64's last steps."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def share(batch: int, rank: int, world: int) -> slice:
    """Return the rows of a global batch that a rank works on.

    Example:
        >>> [share(5, r, 2) for r in range(2)]
        [slice(0, 3, None), slice(3, 5, None)]
    """
    size, extra = divmod(batch, world)
    start = rank * size + min(rank, extra)
    return slice(start, start + size + (rank < extra))


class Ahead(Generic[T]):
    """Makes the batch of the next step in a thread while this one is trained.

    `make(step)` is a pure function, so a batch is the same whether it was made before or is made
    now. One thread makes them all: nothing they use is used twice at a time. It ends with the last
    reference to this object, or with the program.

    Example:
        >>> ahead = Ahead(lambda step: step * step, last=3)
        >>> [ahead.get(step) for step in (0, 1, 3)]
        [0, 1, 9]
    """

    def __init__(self, make: Callable[[int], T], last: int):
        self.make, self.last = make, last
        self.thread = ThreadPoolExecutor(1, "batches")
        self.next: tuple[int, Future[T]] | None = None

    def get(self, step: int) -> T:
        """Return the batch of a step, and begin with the one after it."""
        known, self.next = self.next, None
        future = known[1] if known and known[0] == step else self.thread.submit(self.make, step)
        batch = future.result()
        if step < self.last:
            self.next = (step + 1, self.thread.submit(self.make, step + 1))
        return batch
