"""Exact enumeration on tiny state spaces: -log p, NELBO and the anchor term of Theorem 4.1.

Two ordinary tokens 0 and 1 and the mask m = 2, so a sequence of length L has 3^L states z. A
network is a table of log-probabilities for every z; its T-step reverse process is followed along
every path.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adlm.process.reverse import Transition

MASK = 2


@dataclass(frozen=True)
class TabularPair:
    """A network pair by its tables: log x_psi and log y_phi for every z."""

    log_x: np.ndarray  # (3^L, L, 2)
    log_y: np.ndarray  # (3^L, L, 2)
    length: int

    @classmethod
    def random(cls, length: int, seed: int, sharpness: float = 1.5) -> TabularPair:
        """Independent random logits for every state."""
        generator = np.random.default_rng(seed)
        logits = sharpness * generator.standard_normal((2, 3**length, length, 2))
        log_p = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        return cls(log_p[0], log_p[1], length)

    def index(self, z: tuple[int, ...]) -> int:
        return sum(v * 3**i for i, v in enumerate(z))


class ReverseStep(NamedTuple):
    """The probabilities of one reverse step, as plain numbers."""

    alpha_t: float
    sigma: float  # P(visible -> mask)
    unmask: float  # P(masked -> token) = |lambda_t|


def steps(count: int, sigma: float) -> list[ReverseStep]:
    """The T reverse steps from t = 1 to 0 for alpha = 1 - t; sigma is cut to its valid range."""
    out = []
    for i in range(count, 0, -1):
        step = Transition.of(1 - i / count, 1 - (i - 1) / count)
        cut = step.cut(sigma)
        out.append(ReverseStep(step.alpha_t.item(), cut.item(), step.unmask(cut).item()))
    return out


def distribution(
    table: TabularPair | Sequence[TabularPair], count: int, sigma: float = 0.0
) -> dict[tuple[int, ...], float]:
    """p(x) of the T-step sampler (6), over all sequences, by following every path.

    Several tables are one for each step: a network that sees the noise level.

    Example:
        >>> total = sum(distribution(TabularPair.random(2, seed=0), 3, sigma=0.1).values())
        >>> bool(np.isclose(total, 1.0))
        True
    """
    tables = [table] * count if isinstance(table, TabularPair) else table
    chance = {(MASK,) * tables[0].length: 1.0}
    for told, step in zip(tables, steps(count, sigma), strict=True):
        following: dict[tuple[int, ...], float] = {}
        for z, p in chance.items():
            for path in itertools.product(*_moves(told, z, step)):
                key = tuple(v for v, _ in path)
                move = float(np.prod([q for _, q in path]))
                following[key] = following.get(key, 0.0) + p * move
        chance = following
    return chance


def _moves(
    table: TabularPair, z: tuple[int, ...], step: ReverseStep
) -> list[list[tuple[int, float]]]:
    """For each position, where it can go and how likely."""
    probabilities = np.exp(table.log_x[table.index(z)])
    moves = []
    for position, value in enumerate(z):
        if value == MASK:
            to = [(v, step.unmask * float(probabilities[position, v])) for v in (0, 1)]
            moves.append([(MASK, 1 - step.unmask), *to])
        else:
            moves.append([(value, 1 - step.sigma), (MASK, step.sigma)])
    return moves


@dataclass(frozen=True)
class BoundTerms:
    """The quantities of Theorem 4.1 for one sequence, in nats:

        -log p + gamma L_Anchor <= ANELBO = NELBO + gamma (anchor term).

    The anchor term of the ANELBO *is* L_Anchor (a weighted cross-entropy on one side, a KL of
    transitions on the other: they are computed apart and agree), so it stands on both sides and the
    theorem says -log p <= NELBO, no more. Both statements are properties of their own.
    """

    nll: float
    nelbo: float
    anchor: float  # the anchor term of the ANELBO: weighted cross-entropies at masked anchors
    divergence: float  # L_Anchor by its definition (9): a KL of transitions, summed over steps

    @property
    def slack(self) -> float:
        """NELBO + log p: what the theorem says is not negative; the anchors have no part in it."""
        return self.nelbo - self.nll

    @property
    def apart(self) -> float:
        """How far the two computations of the anchor term differ."""
        return abs(self.anchor - self.divergence)


def bound(
    table: TabularPair, x: tuple[int, ...], anchors: set[int], count: int, sigma: float
) -> BoundTerms:
    """Return every term of the theorem, by listing every z_t with its probability."""
    nelbo = anchor = divergence = 0.0
    for step in steps(count, sigma):
        for hidden in itertools.product((False, True), repeat=table.length):
            z = tuple(MASK if h else v for h, v in zip(hidden, x, strict=True))
            masked = [i for i, h in enumerate(hidden) if h]
            chance = (1 - step.alpha_t) ** len(masked) * step.alpha_t ** (len(x) - len(masked))
            row = table.index(z)
            weight = step.unmask * chance
            nelbo -= weight * sum(table.log_x[row, i, x[i]] for i in masked)
            anchor -= weight * sum(table.log_y[row, i, x[i]] for i in masked if i in anchors)
            divergence += chance * sum(_divergence(table, z, x, i, step) for i in anchors)
    nll = -float(np.log(distribution(table, count, sigma)[x]))
    return BoundTerms(nll, float(nelbo), float(anchor), float(divergence))


def _divergence(
    table: TabularPair, z: tuple[int, ...], x: tuple[int, ...], position: int, step: ReverseStep
) -> float:
    """KL( r(Y_s | Z_t, y) || r_phi(Y_s | Z_t) ) at one anchor, over its two tokens and the mask."""
    true, model = np.zeros(3), np.zeros(3)
    if z[position] == MASK:
        true[x[position]], true[MASK] = step.unmask, 1 - step.unmask
        model[:MASK] = step.unmask * np.exp(table.log_y[table.index(z), position])
        model[MASK] = 1 - step.unmask
    else:  # both know a visible token
        true[x[position]], true[MASK] = 1 - step.sigma, step.sigma
        model = true
    some = true > 0
    return float((true[some] * np.log(true[some] / model[some])).sum())
