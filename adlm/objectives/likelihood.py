"""Nats of rows: exact for AR, an estimate of the bound for diffusion.

The noise of a row depends on (seed, row) alone, and rows are summed in fp64: batch size, workers
and processes do not change the answer. With M draws a row, draw m takes its time from the m-th of
M equal strata.

Two standard errors: `se` treats the documents as a sample of the language (rows of one document are
alike), `se_monte_carlo` is what is left for these very rows because of the draws (0 for an exact
likelihood).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from adlm import registry
from adlm.config import Config
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.device import autocast, check_memory
from adlm.models.denoiser import Denoiser
from adlm.objectives.base import Objective, make_objective
from adlm.progress import Bar
from adlm.types import Noise
from adlm.world import World


@dataclass(frozen=True)
class Likelihood:
    """Nats of scored rows."""

    nats: np.ndarray  # (R, M) fp64: each draw's estimate of a row
    tokens: np.ndarray  # (R,) tokens scored in each row
    document: np.ndarray  # (R,) the document in which each row begins
    index: np.ndarray  # (R,) which rows they are

    @property
    def nll(self) -> float:
        """Nats a token."""
        return float(self.nats.mean(axis=1).sum() / self.tokens.sum())

    @property
    def ppl(self) -> float:
        return math.exp(self.nll) if self.nll < 700 else math.inf

    @property
    def se(self) -> float:
        """Standard error of nll over documents (a ratio estimator: they differ in length).

        A row belongs to the document in which it begins. With the residuals of a document's rows
        summed to e_g = sum (nats - nll tokens), the variance is G/(G-1) sum e_g^2 / tokens^2.
        """
        _, group = np.unique(self.document, return_inverse=True)
        residual = np.bincount(group, self.nats.mean(axis=1) - self.nll * self.tokens)
        count = len(residual)
        if count < 2:
            return math.nan
        return float(math.sqrt(count / (count - 1) * (residual**2).sum()) / self.tokens.sum())

    @property
    def documents(self) -> int:
        """In how many documents the rows begin."""
        return len(np.unique(self.document))

    @property
    def se_monte_carlo(self) -> float:
        """Standard error of nll over draws, for these rows.

        The curve over the strata that all rows share is taken off first; what is left is compared
        between neighbours (see `strata_variance`).
        """
        rows, draws = self.nats.shape
        if draws < 2:
            return math.nan
        curve = self.nats.sum(axis=0) / self.tokens.sum() if rows > 1 else np.zeros(draws)
        residual = self.nats - self.tokens[:, None] * curve
        variance = strata_variance(residual).sum() * rows / max(1, rows - 1)
        return float(math.sqrt(variance) / self.tokens.sum())

    def plus(self, nats: np.ndarray) -> Likelihood:
        """Return the same with nats added to each row: (R,)."""
        return replace(self, nats=self.nats + nats[:, None])


def strata_variance(draws: np.ndarray) -> np.ndarray:
    """Variance of the mean of one draw from each of M strata: (R, M) -> (R,).

    Neighbouring strata are taken together in pairs, the last three where M is odd (the estimator of
    collapsed strata),

        1 / M^2 * sum over groups of g of g / (g - 1) * sum (d - mean of the group)^2.

    It is too large on average by what the means within a group differ, and never too small. The
    sample variance of all draws would count the whole curve over the strata as noise.

    Example:
        >>> strata_variance(np.array([[1.0, 3.0, 10.0, 10.0]]))
        array([0.25])
    """
    count = draws.shape[1]
    group = np.minimum(np.arange(count) // 2, count // 2 - 1)  # (M,)
    size = np.bincount(group)  # (G,)
    mean = np.add.reduceat(draws, 2 * np.arange(len(size)), axis=1) / size  # (R, G)
    return ((draws - mean[:, group]) ** 2 @ (size / (size - 1))[group]) / count**2


def evaluator(config: Config, vocab: Vocab, counts: CorpusCounts | None = None) -> Objective:
    """The objective that scores: the least noisy unbiased estimator of the model's own bound.

    `counts` are of the training corpus, as its checkpoint has them.
    """
    kind = registry.lookup("objective", config.objective)
    return make_objective(kind.for_scoring(config), vocab, counts)


def row_noise(seed: int, row: int, draws: int, length: int, clocks: int = 1) -> Noise:
    """The noise of all draws of one row: t: (M,), or (M, clocks) of several; u, token: (M, L)."""
    bits = np.random.Generator(np.random.Philox(key=[seed, row]))
    numbers = bits.random((draws, clocks + length), dtype=np.float32)
    stratum = np.arange(draws, dtype=np.float32)[:, None]
    t = torch.from_numpy((stratum + 1 - numbers[:, :clocks]) / draws)  # in (0, 1]
    u = torch.from_numpy(numbers[:, clocks:].copy())
    token = torch.from_numpy(bits.random((draws, length), dtype=np.float32))
    return Noise(t[:, 0] if clocks == 1 else t, u, token=token)


def stack(rows: list[Noise]) -> Noise:
    """One noise of several rows' own."""
    found = {f.name: [getattr(n, f.name) for n in rows] for f in fields(Noise)}
    made: dict[str, Any] = {name: torch.cat(xs) for name, xs in found.items() if xs[0] is not None}
    return Noise(**made)


@torch.no_grad()
def score(
    model: Denoiser,
    objective: Objective,
    rows: Rows,
    index: np.ndarray,
    draws: int = 1,
    seed: int = 0,
    batch: int = 64,
    device: str = "cpu",
    precision: str = "fp32",
    quiet: bool = False,
    world: World = World(),
) -> Likelihood:
    """Score the rows `index`: (R,).

    Several processes take whole batches in turn, so that each row has the bits that it has on one.
    They pass as many each, which weights that are gathered for a pass need.
    """
    draws = 1 if objective.exact else draws
    clocks = objective.clocks(rows.length)
    check_memory(8.0 * len(index) * draws, "keeping every draw", "fewer rows or draws")
    nats = np.zeros((len(index), draws))
    model.eval()
    with (
        autocast(precision, device),
        Bar("scoring", len(index), "rows", quiet=quiet or not world.main) as bar,
    ):
        starts = range(0, len(index), batch)
        for first in starts[:: world.size]:
            low = first + world.rank * batch
            mine = low < len(index)
            low = low if mine else first
            part = index[low : low + batch]
            clean = rows.batch(part)
            made = (
                []
                if objective.exact
                else [row_noise(seed, int(r), draws, rows.length, clocks) for r in part]
            )
            for draw in range(draws):
                noise = None
                if not objective.exact:
                    noise = stack([n[draw : draw + 1] for n in made]).to(device)
                scored = objective.score(model, clean.to(device), noise)
                if mine:
                    nats[low : low + len(part), draw] = scored.rows.cpu().numpy()
            bar.update(min(first + world.size * batch, len(index)))
    nats = world.add(nats)
    return Likelihood(nats, rows.scored[index], rows.document[index], index)


@torch.no_grad()
def token_nats(
    model: Denoiser,
    objective: Objective,
    rows: Rows,
    draws: int = 1,
    seed: int = 0,
    device: str = "cpu",
    check: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """(R, L) nats of each token: exact for AR, for diffusion its share of the bound.

    The mean over the draws that `score` takes, so that rows add up to the same. What an objective
    scores aside is spread evenly over a row. `check` is called before each pass, and may raise.
    """
    draws = 1 if objective.exact else draws
    every = np.arange(len(rows))
    clean = rows.batch(every).to(device)
    clocks = objective.clocks(rows.length)
    made = [row_noise(seed, int(r), draws, rows.length, clocks) for r in every]
    total = torch.zeros(clean.x.shape, dtype=torch.float64)
    for draw in range(draws):
        check()
        noise = None if objective.exact else stack([n[draw : draw + 1] for n in made]).to(device)
        view = objective.view(clean, noise)
        _, nats = objective.loss(objective.states(model, view).denoiser, model.head, view)
        cost = torch.zeros(view.z.shape, dtype=torch.float64)
        cost[view.wanted.cpu()] = (nats * view.scale).cpu().double()
        total += cost[:, : rows.length]
        if (aside := objective.aside(model, clean)) is not None:
            share = aside[1].cpu().double() / clean.scored.sum(dim=1).cpu()
            total += share[:, None] * clean.scored.cpu()
    return (total / draws).numpy()


def length_nats(rows: Rows, index: np.ndarray, lengths: Lengths) -> np.ndarray:
    """(R,) what the lengths cost that the rows `index` show.

    A row that tells documents apart shows the length of each of its pieces. Codes of lengths that
    follow each other until the row is full are a code of the row. Of pairs it is the answer's.
    """
    if rows.given is not None:
        return lengths.cut(rows.length).nats(rows.scored[index])
    row, tokens = rows.pieces(index)
    return np.bincount(row, lengths.cut(rows.length).nats(tokens), minlength=len(index))


def spread(total: int, limit: int) -> np.ndarray:
    """At most `limit` row numbers, spread evenly; 0 = all.

    Example:
        >>> spread(10, 3).tolist()
        [0, 3, 6]
    """
    if not limit or limit >= total:
        return np.arange(total)
    return (np.arange(limit) * total) // limit
