"""What an objective is.

An objective is a pure function of a model, rows of tokens and the randomness it is handed. It
draws nothing itself, so the same numbers come out whatever the batch, the process or the resume.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from adlm import registry
from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.models.denoiser import Denoiser
from adlm.types import Batch, Noise, Score


class Objective(Protocol):
    """One way to score text with a model."""

    causal: bool  # which mask the trunk needs
    exact: bool  # is the score the NLL itself, or an upper bound?
    estimator: str  # how the score is computed, in a few words

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise | None:
        """The randomness for one global batch of training rows."""
        ...

    def score(self, model: Denoiser, batch: Batch, noise: Noise | None) -> Score:
        """Nats of each row, and their sum with gradients."""
        ...


def make(config: Config, vocab: Vocab) -> Objective:
    """The objective that a configuration names."""
    return registry.lookup("objective", config.objective)(config, vocab)


def sum_rows(values: Tensor, index: Tensor, rows: int) -> Tensor:
    """Sum values: (N,) into (rows,) by index: (N,), in fp64 so that order does not matter."""
    out = torch.zeros(rows, dtype=torch.float64, device=values.device)
    return out.index_add_(0, index, values.double())
