"""The interval of times on which block diffusion is trained, searched as published.

Near t = 0 a block hides nothing and near t = 1 everything, so the loss, and with it the gradient,
varies most there. Of the candidate intervals that one is best on which the loss of held-out rows,

    1/t * cross-entropy of the hidden tokens,   t ~ U[low, high],

has the smallest variance. It is a setting of the training alone: what is reported has all times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from adlm.config import Config
from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.device import autocast
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.objectives.base import make_objective
from adlm.progress import Bar

WIDTHS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
STEP = 0.05  # between the low ends


@dataclass(frozen=True)
class Interval:
    """A candidate and what was measured on it."""

    low: float
    high: float
    variance: float  # of a row's nats a token
    nats: float  # their mean; not the bound, but on the whole interval


def candidates(widths: tuple[float, ...] = WIDTHS, step: float = STEP) -> list[tuple[float, float]]:
    """Return all intervals of these widths, `step` apart.

    Example:
        >>> candidates((0.9, 1.0))
        [(0.0, 0.9), (0.05, 0.95), (0.1, 1.0), (0.0, 1.0)]
    """
    found = []
    for width in widths:
        for i in range(math.floor((1 - width) / step + 1e-9) + 1):
            found.append((round(i * step, 6), round(i * step + width, 6)))
    return found


@torch.no_grad()
def search(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    rows: Rows,
    index: np.ndarray,
    seed: int = 0,
    batch: int = 64,
    device: str = "cpu",
    precision: str = "fp32",
    quiet: bool = False,
) -> list[Interval]:
    """Measure every candidate on the rows `index`, (R,); the least varying comes first."""
    measured = []
    model.eval()
    with autocast(precision, device), Bar("intervals", len(candidates()), "", quiet=quiet) as bar:
        for number, clip in enumerate(candidates(), 1):
            try:
                objective = make_objective(clipped(config, clip), vocab)
            except UserError:  # no mask of such a block has a share inside
                continue
            generator = torch.Generator().manual_seed(seed)  # the same rows and draws for all
            nats = []
            for low in range(0, len(index), batch):
                part = index[low : low + batch]
                noise = objective.noise(len(part), rows.length, generator)
                assert noise is not None
                scored = objective.score(model, rows.batch(part).to(device), noise.to(device))
                nats.append(scored.rows.cpu().numpy() / rows.scored[part])
            every = np.concatenate(nats)
            measured.append(Interval(*clip, float(every.var(ddof=1)), float(every.mean())))
            bar.update(number)
    return sorted(measured, key=lambda found: found.variance)


def clipped(config: Config, clip: tuple[float, float]) -> Config:
    """The configuration whose loss is measured: the bound's weight, times from one interval."""
    process = replace(
        config.process,
        masking="bernoulli",
        times="stratified",
        weight="bound",
        steps=0,
        eps=0.0,
        clip=clip,
    )
    return replace(config, process=process)
