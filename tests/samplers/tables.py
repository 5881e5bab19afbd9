"""Small exact distributions, and a network that has them."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import torch
from torch import Tensor, nn

from adlm.models.denoiser import States
from adlm.nn.context import Context
from adlm.registry import lookup, names
from adlm.samplers.base import Canvas
from adlm.samplers.categorical import Draw
from adlm.samplers.random import RowRandom
from adlm.samplers.remask import Remasking
from adlm.theory.enumerate import MASK, TabularPair

V = 3
PLAIN = [n for n in names("sampler") if not lookup("sampler", n).needs_anchors]
REMASKING = [n for n in PLAIN if issubclass(lookup("sampler", n), Remasking)]
LIMITS = {3: 16.3, 7: 24.3, 15: 37.7}  # chi-square at p = 0.001 by degrees of freedom


class Network(nn.Module):
    """The table of `adlm.theory` as a model: its hidden states are its logits.

    With a `late` table it sees the noise level, and has that where half or more is visible.
    """

    def __init__(self, table: TabularPair, late: TabularPair | None = None):
        super().__init__()
        self.late = None if late is None else Network(late)
        size = (len(table.log_x), table.length, 1)
        logits = np.concatenate((table.log_x, np.zeros(size)), axis=2)
        self.logits_of = torch.from_numpy(logits)
        self.base = 3 ** torch.arange(table.length)
        self.head = nn.Identity()
        self.head.out_features = logits.shape[2]  # as a Linear has it

    def forward(self, z: Tensor, context: Context = Context()) -> States:
        logits = self.logits_of[(z * self.base).sum(dim=1)]  # (B, L, V)
        if self.late is not None:
            now = torch.exp(-context.sigma) > 0.5 - 1e-6
            logits = torch.where(now[:, None, None], self.late(z).denoiser, logits)
        return States(logits)


def canvas(model: nn.Module, rows: int, length: int, seed: int = 0, draw: Draw = Draw()) -> Canvas:
    z = torch.full((rows, length), MASK)
    frozen = torch.zeros_like(z, dtype=torch.bool)
    conditioned = getattr(model, "late", None) is not None
    return Canvas(
        z, frozen, MASK, model, draw, RowRandom(seed, range(rows)), conditioned=conditioned
    )


def two_tables(steps: int) -> tuple[Network, list[TabularPair]]:
    """A network that sees the noise level, and its table at each of T steps, alpha = 1 - t."""
    early, late = TabularPair.random(3, seed=21), TabularPair.random(3, seed=22)
    return Network(early, late), [late if 2 * i >= steps else early for i in range(steps)]


def chi_square(z: Tensor, expected: dict[tuple[int, ...], float]) -> float:
    seen = Counter(map(tuple, z.tolist()))
    assert set(seen) <= {x for x, p in expected.items() if p > 0}
    return sum((seen[x] - p * len(z)) ** 2 / (p * len(z)) for x, p in expected.items() if p > 0)


def followed(
    table: TabularPair, moves: list[tuple[float, float, float]]
) -> dict[tuple[int, ...], float]:
    """p(x) along every path of steps (alpha_t, alpha_s, sigma), by equation (6)."""
    chance = {(MASK,) * table.length: 1.0}
    for alpha_t, alpha_s, wanted in moves:
        sigma = min(wanted, 1.0, (1 - alpha_s) / alpha_t if alpha_t else 1.0)
        unmask = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
        following: Counter[tuple[int, ...]] = Counter()
        for z, p in chance.items():
            known = np.exp(table.log_x[table.index(z)])  # (L, 2)
            to = [
                {0: unmask * a, 1: unmask * b, MASK: 1 - unmask}
                if v == MASK
                else {v: 1 - sigma, MASK: sigma}
                for v, (a, b) in zip(z, known, strict=True)
            ]
            for after in itertools.product(*to):
                each = zip(to, after, strict=True)
                following[after] += p * math.prod(float(moves[v]) for moves, v in each)
        chance = following
    return {x: p for x, p in chance.items() if MASK not in x}


def random_order(table: TabularPair) -> dict[tuple[int, ...], float]:
    """p(x) when positions are written one by one in uniformly random order."""
    out: dict[tuple[int, ...], float] = {}
    orders = list(itertools.permutations(range(table.length)))
    for x in itertools.product((0, 1), repeat=table.length):
        total = 0.0
        for order in orders:
            z, log_p = [MASK] * table.length, 0.0
            for position in order:
                log_p += table.log_x[table.index(tuple(z)), position, x[position]]
                z[position] = x[position]
            total += math.exp(log_p)
        out[x] = total / len(orders)
    return out
