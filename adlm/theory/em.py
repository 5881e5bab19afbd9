"""The EM view (A.3.3): anchors as latent variables, and a likelihood that never falls.

A mixture: a latent anchor y in {1..A} is drawn, then every token given y,

    p(x) = sum_y p(y) prod_l p(x^l | y).

E-step: r(y | x) = p(y | x), the anchor network's work. M-step: the tables that maximise the
expected log p(x, y), the denoiser's. By Theorem A.6 the NLL does not rise.
"""

from __future__ import annotations

import numpy as np

from adlm.theory.networks import make


def em_curve(anchors: int = 3, rounds: int = 30, samples: int = 2000, seed: int = 0) -> list[float]:
    """NLL a sequence after each round, on draws of a star network (its centre is the anchor).

    Example:
        >>> curve = em_curve(rounds=5, samples=200)
        >>> bool(np.all(np.diff(curve) <= 1e-12))
        True
    """
    network = make("star", 8, 3, seed=2)
    x = network.sample(samples, np.random.default_rng(seed))[:, 1:]  # the centre is not seen
    one_hot = np.eye(network.values)[x]  # (N, L, K)
    generator = np.random.default_rng(seed + 1)
    prior = np.full(anchors, 1 / anchors)
    tables = generator.dirichlet(np.ones(network.values), size=(anchors, x.shape[1]))  # (A, L, K)
    curve = []
    for _ in range(rounds):
        joint = np.log(prior) + np.einsum("nlk,alk->na", one_hot, np.log(tables))  # (N, A)
        log_p = np.logaddexp.reduce(joint, axis=1)
        curve.append(float(-log_p.mean()))
        responsibility = np.exp(joint - log_p[:, None])  # E-step: r(y | x)
        prior = responsibility.mean(axis=0)  # M-step
        counts = np.einsum("na,nlk->alk", responsibility, one_hot) + 1e-12
        tables = counts / counts.sum(axis=2, keepdims=True)
    return curve
