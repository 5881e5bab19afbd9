"""What an objective is.

An objective is a pure function of a model, rows of tokens and the randomness it is handed. It
draws nothing itself, so the same numbers come out whatever the batch, the process or the resume.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from adlm import registry
from adlm.config import Config, ProcessConfig
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser, States
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.types import Batch, Noise, Score, View


class Objective(ABC):
    """One way to score text with a model: what the network is shown, and what its answer costs.

    A subclass says what is drawn (`noise`) and what is shown (`view`); where the cost is not a
    weighted cross-entropy it overrides `loss`. Anchoring wraps around all three.
    """

    causal: bool  # which mask the trunk needs
    in_blocks: bool = False  # or that of block diffusion: a row is shown twice, [z ; x]
    exact: bool  # is the score the NLL itself?
    bound: bool  # or at least an upper bound of it?
    estimator: str  # how the score is computed, in a few words
    parameterization: ClassVar[str] = "subs"  # what its network tells: samplers serve some of them
    reads: ClassVar[bool] = False  # may it predict the mask, and reads the text off z_0?
    knows: ClassVar[tuple[str, ...]] = ()  # which of SOME of the process's settings it has
    counts: CorpusCounts | None = None  # of the training corpus, where something reads them

    def __init__(self, config: Config, vocab: Vocab):
        self.mask = vocab.mask

    @abstractmethod
    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise | None:
        """Draw the randomness for one global batch of training rows."""

    def noise_at(
        self, progress: float, rows: int, length: int, generator: torch.Generator
    ) -> Noise | None:
        """Draw the same when a share `progress` of the training is done: a curriculum differs."""
        return self.noise(rows, length, generator)

    @abstractmethod
    def view(self, batch: Batch, noise: Noise | None) -> View:
        """Return what the network is shown, and which of its predictions are scored."""

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        """Return sum_n weight_n nats_n with gradients, and nats: (N,) without weight or gradients.

        h: (N, D) states of the wanted positions. nats_n = -log p(x_n), the mask left out of p.
        """
        x = view.x[view.wanted]
        return linear_cross_entropy(h, head.weight, head.bias, x, view.scale, self.mask)

    def score(
        self, model: Denoiser, batch: Batch, noise: Noise | None, anchor: bool = False
    ) -> Score:
        """Score each row; `anchor` asks for the anchor loss too, where there is one."""
        view = self.view(batch, noise)
        return self.scored(model, batch, view, self.states(model, view))

    def states(self, model: Denoiser, view: View) -> States:
        """Pass a view; the denoiser's states are those of the wanted positions: (N, D)."""
        return model(view.z, replace(view.context, wanted=view.wanted))

    def scored(self, model: Denoiser, batch: Batch, view: View, states: States) -> Score:
        """Add up what a view's predictions cost, and what is scored aside."""
        bound, nats = self.loss(states.denoiser, model.head, view)
        rows, aside = view.by_row(nats), self.aside(model, batch)
        return Score(bound, rows) if aside is None else Score(bound + aside[0], rows + aside[1])

    def hidden(self, view: View) -> Tensor:
        """(B, P) the wanted positions whose token the network is not shown."""
        return view.wanted

    def aside(self, model: Denoiser, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """What is scored besides the view: (sum with gradients, (B,) by row); mostly nothing."""
        return None

    def know(self, counts: CorpusCounts | None) -> None:
        """Take the counts of the training corpus."""
        self.counts = counts

    @classmethod
    def needs_counts(cls, config: Config) -> bool:
        """Does something of the configuration read the counts of the training corpus?"""
        return False

    @classmethod
    def for_scoring(cls, config: Config) -> Config:
        """The configuration whose loss is the least noisy estimator of the model's own bound."""
        return config

    @classmethod
    def head_share(cls, config: Config) -> float:
        """Share of positions whose logits are needed in training."""
        return 0.5

    @classmethod
    def passes(cls, config: Config) -> float:
        """Network passes over a row in a training step."""
        return 1.0

    def clocks(self, length: int) -> int:
        """Return how many times a row has that are drawn apart: one, or one for each block."""
        return 1

    def gamma(self, progress: float) -> float:
        """Weight of the anchor loss when a share `progress` of the training is done."""
        return 0.0


# settings of the process that few objectives have
SOME = ("order", "tilt", "complement", "curriculum", "clip")


def make_objective(config: Config, vocab: Vocab, counts: CorpusCounts | None = None) -> Objective:
    """Build the objective that a configuration names; `counts` are of the training corpus."""
    kind = registry.lookup("objective", config.objective)
    for name in SOME:
        found, plain = (getattr(p, name) for p in (config.process, ProcessConfig()))
        if found != plain and name not in kind.knows:
            wanted, given = (str(list(v) if isinstance(v, tuple) else v) for v in (plain, found))
            raise UserError(
                f"the objective {config.objective} has no process.{name}: it must be "
                f"{wanted.lower()}, found {given.lower()}"
            )
    made = kind(config, vocab)
    made.know(counts)
    return made
