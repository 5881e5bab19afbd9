"""What an objective is.

An objective is a pure function of a model, rows of tokens and the randomness it is handed. It
draws nothing itself, so the same numbers come out whatever the batch, the process or the resume.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from adlm import registry
from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.device import wide
from adlm.models.denoiser import Denoiser
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.types import Batch, Noise, Score, View


class Objective(Protocol):
    """One way to score text with a model."""

    causal: bool  # which mask the trunk needs
    exact: bool  # is the score the NLL itself?
    bound: bool  # or at least an upper bound of it?
    estimator: str  # how the score is computed, in a few words

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise | None:
        """The randomness for one global batch of training rows."""
        ...

    def score(
        self, model: Denoiser, batch: Batch, noise: Noise | None, progress: float = 1.0
    ) -> Score:
        """Nats of each row, and what is minimised; `progress` is the share of training done."""
        ...


class Base:
    """The common part of plain objectives: a view of the batch, and its cross-entropy.

    A subclass says what the network is shown (`view`); anchoring wraps around the same view.
    """

    mask: int

    def view(self, batch: Batch, noise: Noise | None) -> View:
        raise NotImplementedError

    def score(
        self, model: Denoiser, batch: Batch, noise: Noise | None, progress: float = 1.0
    ) -> Score:
        view = self.view(batch, noise)
        h = model.hidden(view.z, view.segment, view.sigma, wanted=view.wanted)  # (N, D)
        total, rows = cross_entropy(h, model.head, batch.x, view.wanted, view.weight, self.mask)
        return Score(total, rows)


def make(config: Config, vocab: Vocab) -> Objective:
    """The objective that a configuration names."""
    return registry.lookup("objective", config.objective)(config, vocab)


def cross_entropy(
    h: Tensor, head: nn.Linear, x: Tensor, wanted: Tensor, weight: Tensor, forbid: int
) -> tuple[Tensor, Tensor]:
    """Weighted cross-entropy at the wanted positions only: (sum with gradients, (B,) by row).

    h: (N, D) states of the wanted positions, x and wanted: (B, L), weight: (B,).
    """
    row = wanted.nonzero()[:, 0]  # (N,) the row of each prediction
    scale = weight[row]
    total, nll = linear_cross_entropy(h, head.weight, head.bias, x[wanted], scale, forbid)
    place = wide(x.device)
    rows = torch.zeros(len(x), dtype=torch.float64, device=place)  # fp64: order is no matter
    return total, rows.index_add_(0, row.to(place), (nll * scale).to(place).double())
