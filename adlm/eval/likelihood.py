"""Likelihood of a corpus: exact for AR, an upper bound for diffusion, and said to be so.

The noise of a row depends on (seed, row) alone, and rows are summed in fp64: batch size, workers
and processes do not change the answer. With M draws a row, draw m takes its time from the m-th of
M equal strata.

Two standard errors: `se` treats the rows as a sample of the language, `se_monte_carlo` is what is
left for these very rows because of the draws (0 for an exact likelihood).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from adlm.config import Config
from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.device import autocast
from adlm.models.denoiser import Denoiser
from adlm.objectives.base import Objective, make
from adlm.objectives.mdlm import of_bound
from adlm.progress import Bar
from adlm.types import Noise


@dataclass(frozen=True)
class Likelihood:
    """Nats of scored rows."""

    nats: np.ndarray  # (R, M) fp64: each draw's estimate of a row
    tokens: np.ndarray  # (R,) tokens scored in each row

    @property
    def nll(self) -> float:
        """Nats a token."""
        return float(self.nats.mean(axis=1).sum() / self.tokens.sum())

    @property
    def ppl(self) -> float:
        return math.exp(self.nll) if self.nll < 700 else math.inf

    @property
    def se(self) -> float:
        """Standard error of nll over rows (a ratio estimator: rows differ in length)."""
        rows = len(self.tokens)
        if rows < 2:
            return math.nan
        residual = self.nats.mean(axis=1) - self.nll * self.tokens
        return float(math.sqrt(rows / (rows - 1) * (residual**2).sum()) / self.tokens.sum())

    @property
    def se_monte_carlo(self) -> float:
        """Standard error of nll over draws, for these rows."""
        draws = self.nats.shape[1]
        if draws < 2:
            return math.nan
        return float(math.sqrt((self.nats.var(axis=1, ddof=1) / draws).sum()) / self.tokens.sum())


def evaluator(config: Config, vocab: Vocab) -> Objective:
    """The objective that scores: the least noisy unbiased estimator of the model's own bound."""
    config = of_bound(config)
    process = config.process
    timed = process.conditioned or process.steps > 0
    masking = "bernoulli" if timed else "exact-k"
    return make(replace(config, process=replace(process, masking=masking, eps=0.0)), vocab)


def row_noise(seed: int, row: int, draws: int, length: int) -> Noise:
    """The noise of all draws of one row: t: (M,), u: (M, L)."""
    bits = np.random.Generator(np.random.Philox(key=[seed, row]))
    numbers = bits.random((draws, 1 + length), dtype=np.float32)
    t = (np.arange(draws, dtype=np.float32) + 1 - numbers[:, 0]) / draws  # in (0, 1]
    return Noise(torch.from_numpy(t), torch.from_numpy(numbers[:, 1:].copy()))


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
) -> Likelihood:
    """Score the rows `index`: (R,)."""
    draws = 1 if objective.exact else draws
    nats = np.zeros((len(index), draws))
    model.eval()
    with (
        autocast(precision, device),
        Bar("scoring", len(index), "rows", quiet=quiet) as bar,
    ):
        for low in range(0, len(index), batch):
            part = index[low : low + batch]
            clean = rows.batch(part)
            made = (
                []
                if objective.exact
                else [row_noise(seed, int(r), draws, rows.length) for r in part]
            )
            for draw in range(draws):
                noise = None
                if not objective.exact:
                    t = torch.stack([n.t[draw] for n in made])
                    noise = Noise(t, torch.stack([n.u[draw] for n in made])).to(device)
                scored = objective.score(model, clean.to(device), noise)
                nats[low : low + len(part), draw] = scored.rows.cpu().numpy()
            bar.update(low + len(part))
    return Likelihood(nats, rows.count[index])


def spread(total: int, limit: int) -> np.ndarray:
    """At most `limit` row numbers, spread evenly; 0 = all.

    Example:
        >>> spread(10, 3).tolist()
        [0, 3, 6]
    """
    if not limit or limit >= total:
        return np.arange(total)
    return (np.arange(limit) * total) // limit


def describe(found: Likelihood, rows: Rows, objective: Objective, seed: int) -> dict[str, Any]:
    """The figures of a result file."""
    tokens = int(found.tokens.sum())
    every = tokens == len(rows.store.tokens)
    share = tokens / len(rows.store.tokens)
    text_bytes = rows.store.text_bytes if every else round(rows.store.text_bytes * share)
    return {
        "quantity": "NLL (exact)" if objective.exact else "NELBO (upper bound of the NLL)",
        "exact": objective.exact,
        "nll_per_token": found.nll,
        "ppl": found.ppl,
        "bits_per_byte": found.nll * tokens / text_bytes / math.log(2),
        "se_nll": _number(found.se),
        "se_ppl": _number(found.ppl * found.se),
        "se_monte_carlo": 0.0 if objective.exact else _number(found.se_monte_carlo),
        "rows": len(found.tokens),
        "tokens": tokens,
        "bytes": text_bytes,
        "bytes_counted": "exactly" if every else "in proportion to tokens",
        "draws": found.nats.shape[1],
        "estimator": objective.estimator,
        "seed": seed,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
