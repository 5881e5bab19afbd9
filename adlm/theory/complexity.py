"""Proposition 4.4 as an experiment: how many samples do full tables need?

Each model is a set of conditional probability tables fitted by counting (add-one smoothing), and
differs only in what a table is conditioned on:

    AR    x^l | x^{1:l-1}         sum_l K^l                 parameters
    DLM   x^l | all other x       L K^L
    A2R   x^l | x^{pi_l}          L K^(d+1)                 pi_l = parents, |pi_l| <= d
    ADLM  x^l | x^{pi_l}          L K^(d+1)

The loss is -sum_l log p(x^l | context): the chain rule for AR and A2R, the pseudo-likelihood for
DLM and ADLM. The excess is taken over the model's own floor: its loss with the true conditional
probabilities, computed exactly over all K^L sequences. It says how fast tables are learnt, not how
good they get: DLM sees every other token and has the lowest floor, models that see the parents
alone have the entropy of the network. In this tabular setting ADLM's tables are A2R's: the two
differ in the order in which they are used, not in what they must learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adlm.theory.networks import Network, make

MODELS = ("AR", "DLM", "A2R", "ADLM")


def context(model: str, network: Network, position: int) -> list[int]:
    """The positions that the table of x^position is conditioned on."""
    if model == "AR":
        return list(range(position))
    if model == "DLM":
        return [i for i in range(network.length) if i != position]
    parent = network.parents[position]
    return [parent] if parent >= 0 else []


def parameters(model: str, network: Network) -> int:
    """Entries of all tables.

    Example:
        >>> line = make("line", 4, 2, seed=0)
        >>> [parameters(m, line) for m in MODELS]
        [30, 64, 14, 14]
    """
    k = network.values
    return sum(k ** (len(context(model, network, p)) + 1) for p in range(network.length))


def fit(model: str, network: Network, x: np.ndarray) -> list[np.ndarray]:
    """log tables, one for each position: (K^|context|, K), counted with add-one smoothing."""
    k, out = network.values, []
    for position in range(network.length):
        code = encode(x[:, context(model, network, position)], k)
        rows = k ** len(context(model, network, position))
        counts = np.bincount(code * k + x[:, position], minlength=rows * k).reshape(rows, k) + 1.0
        out.append(np.log(counts / counts.sum(axis=1, keepdims=True)))
    return out


def truth(model: str, network: Network) -> list[np.ndarray]:
    """Return the same tables with the network's own conditional probabilities."""
    every = network.everything()
    weight = np.exp(network.log_p(every))
    k, out = network.values, []
    for position in range(network.length):
        code = encode(every[:, context(model, network, position)], k)
        rows = k ** len(context(model, network, position))
        mass = np.bincount(code * k + every[:, position], weight, rows * k).reshape(rows, k)
        out.append(np.log(mass / mass.sum(axis=1, keepdims=True)))
    return out


def loss(model: str, network: Network, tables: list[np.ndarray]) -> float:
    """Expected -sum_l log p(x^l | context) over the network's exact distribution."""
    every = network.everything()
    weight = np.exp(network.log_p(every))
    total = np.zeros(len(every))
    for position, table in enumerate(tables):
        code = encode(every[:, context(model, network, position)], network.values)
        total -= table[code, every[:, position]]
    return float(weight @ total)


def encode(columns: np.ndarray, base: int) -> np.ndarray:
    """Rows of digits as numbers: (N, n) -> (N,)."""
    return columns @ (base ** np.arange(columns.shape[1], dtype=np.int64))


@dataclass(frozen=True)
class Curve:
    """Excess loss against the number of samples."""

    shape: str
    model: str
    parameters: int
    floor: float  # the loss with the true tables, in nats a sequence
    samples: list[int]
    excess: list[float]  # mean over repeats, in nats a sequence
    exponent: float  # of the fit excess ~ N^exponent over the last half
    needed: float  # samples at which the excess falls below `TARGET` nats, by interpolation


TARGET = 0.05


def curves(
    shape: str,
    length: int = 8,
    values: int = 2,
    repeats: int = 5,
    samples: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
) -> list[Curve]:
    """One curve for each model on one kind of network."""
    network = make(shape, length, values, seed=1)
    out = []
    for model in MODELS:
        floor = loss(model, network, truth(model, network))
        excess = []
        for count in samples:
            draws = [network.sample(count, np.random.default_rng([7, r])) for r in range(repeats)]
            excess.append(
                float(
                    np.mean([loss(model, network, fit(model, network, x)) - floor for x in draws])
                )
            )
        late = len(samples) // 2
        exponent = np.polyfit(np.log(samples[late:]), np.log(excess[late:]), 1)[0]
        needed = np.exp(np.interp(-np.log(TARGET), -np.log(excess), np.log(samples)))
        count = parameters(model, network)
        fitted = (float(exponent), float(needed))
        out.append(Curve(shape, model, count, floor, list(samples), excess, *fitted))
    return out
