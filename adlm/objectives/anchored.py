"""Anchoring wraps any base objective: the ANELBO for masked diffusion, A2R for AR.

    ANELBO = NELBO + gamma * E[ weight * sum_{l anchor} -log <y_phi^l(z_t), x^l> ]
    A2R    = NLL   + gamma * sum_{l anchor} -log y_phi^l(x^l | x^{1:l-1})

The first term goes through both networks, the second through the anchor network alone. The theory
has the anchor loss at masked anchors (a visible one costs nothing); the published code takes
visible anchors too. Only the first term is ever reported as a likelihood.

With `anchor.stale` the anchor network is shown z_{t'} of a later, noisier time t' >= t in training
(the masks of z_t are among its masks), as in a sampler that runs it in some steps only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.config import Config
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.device import wide
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser, States
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.objectives.ar import Autoregressive
from adlm.objectives.base import Objective
from adlm.objectives.bd3lm import BlockDiffusion
from adlm.objectives.mdlm import MaskedDiffusion
from adlm.process.anchors import Anchors, reads_table
from adlm.registry import register
from adlm.types import Batch, Noise, Score, View


class AnchoredObjective(Objective):
    """A base objective with the anchor loss beside it."""

    base_class: type[Objective]

    def __init__(self, config: Config, vocab: Vocab):
        if not config.model.anchor_blocks:
            raise UserError(
                f"the objective {config.objective} needs an anchor network: "
                "model.anchor_blocks must be at least 1, found 0"
            )
        if config.anchor.stale and self.causal:
            raise UserError(
                f"anchor.stale is for diffusion, found the objective {config.objective}"
            )
        super().__init__(config, vocab)
        self.base = self.base_class(config, vocab)
        self.estimator = self.base.estimator
        self.bound, self.exact = self.base.bound, self.base.exact
        self.config, self.vocab = config.anchor, vocab

    def know(self, counts: CorpusCounts | None) -> None:
        super().know(counts)
        self.base.know(counts)

    @classmethod
    def needs_counts(cls, config: Config) -> bool:
        return reads_table(config.anchor.rule) or cls.base_class.needs_counts(config)

    @cached_property
    def anchors(self) -> Anchors:
        """Make the rule when it is first needed: scoring does without it."""
        return Anchors(self.config, self.vocab)

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise | None:
        return self.shifted(self.base.noise(rows, length, generator), rows, generator)

    def noise_at(
        self, progress: float, rows: int, length: int, generator: torch.Generator
    ) -> Noise | None:
        made = self.base.noise_at(progress, rows, length, generator)
        return self.shifted(made, rows, generator)

    def shifted(self, made: Noise | None, rows: int, generator: torch.Generator) -> Noise | None:
        """Add which positions a thinned anchor loss takes."""
        made = self.delayed(made, rows, generator)
        if self.config.every == 1:
            return made
        shift = torch.rand(rows, generator=generator)
        made = made or Noise(shift, shift[:, None])  # AR has no noise, and looks at none
        return replace(made, shift=shift)

    def delayed(self, made: Noise | None, rows: int, generator: torch.Generator) -> Noise | None:
        """Add how much noisier the anchor network's rows are."""
        if made is None or not self.config.stale:
            return made
        return replace(made, stale=torch.rand(rows, generator=generator))

    def earlier(self, batch: Batch, noise: Noise | None) -> View | None:
        """Return the noisier rows that the anchor network is shown; None: those of the denoiser."""
        if noise is None or noise.stale is None or not self.config.stale:
            return None
        later = noise.stale if noise.t.ndim == 1 else noise.stale[:, None]
        t = (noise.t + self.config.stale * later).clamp(max=1.0)
        return self.view(batch, replace(noise, t=t))

    def gamma(self, progress: float) -> float:
        """gamma at a share of the training: a linear rise, then level or a linear fall, then 0."""
        gamma, warmup, until = self.config.gamma, self.config.warmup, self.config.until
        if progress >= until and (self.config.fade or until < 1):
            return 0.0
        if progress < warmup:
            return gamma * progress / warmup
        return gamma * (until - progress) / (until - warmup) if self.config.fade else gamma

    def clocks(self, length: int) -> int:
        return self.base.clocks(length)

    def view(self, batch: Batch, noise: Noise | None) -> View:
        return self.base.view(batch, noise)

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        return self.base.loss(h, head, view)

    def states(self, model: Denoiser, view: View) -> States:
        return self.base.states(model, view)

    def aside(self, model: Denoiser, batch: Batch) -> tuple[Tensor, Tensor] | None:
        return self.base.aside(model, batch)

    @classmethod
    def for_scoring(cls, config: Config) -> Config:
        fresh = replace(config, anchor=replace(config.anchor, stale=0.0))
        return cls.base_class.for_scoring(fresh)

    @classmethod
    def head_share(cls, config: Config) -> float:
        return cls.base_class.head_share(config)

    @classmethod
    def passes(cls, config: Config) -> float:
        return cls.base_class.passes(config)

    def score(
        self, model: Denoiser, batch: Batch, noise: Noise | None, anchor: bool = False
    ) -> Score:
        assert isinstance(model, Anchored)
        view, earlier = self.view(batch, noise), self.earlier(batch, noise)
        if earlier is None:
            states = self.states(model, view)
        else:
            seen, bridged = model.anchored(earlier.z, earlier.context)
            context = replace(view.context, earlier=bridged)
            states = replace(self.states(model, replace(view, context=context)), anchor=seen)
        score = self.scored(model, batch, view, states)
        if not anchor:
            return score
        assert states.anchor is not None
        about = earlier or view
        chosen = replace(about, wanted=self.thinned(self.supervised(batch, about), noise))
        extra, nats = self.anchor_loss(states.anchor[chosen.wanted], model.anchor_head, chosen)
        every = self.config.every
        return replace(score, anchor=every * extra, anchor_rows=every * chosen.by_row(nats))

    def anchor_loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        """Return the anchors' cross-entropy; only the published code lets the mask be predicted."""
        forbid = None if self.config.compat else self.mask
        x = view.x[view.wanted]
        return linear_cross_entropy(h, head.weight, head.bias, x, view.scale, forbid)

    def supervised(self, batch: Batch, view: View) -> Tensor:
        """(B, P) positions that the anchor loss is about: of a row shown twice, the noisy half."""
        place = wide(batch.x.device)
        if self.counts is not None and self.counts.tokens.device != place:
            self.counts = self.counts.to(place)  # once
        chosen = self.anchors(batch.x, batch.valid, self.counts) & batch.scored  # (B, L)
        chosen = F.pad(chosen, (0, view.z.shape[1] - chosen.shape[1]))
        return chosen & self.base.hidden(view) if self.config.positions == "masked" else chosen

    def thinned(self, chosen: Tensor, noise: Noise | None) -> Tensor:
        """(B, P) those that it is taken at: of `every` neighbours one, a row's grid at random."""
        every = self.config.every
        if every == 1:
            return chosen
        assert noise is not None
        assert noise.shift is not None
        place = torch.arange(chosen.shape[1], device=chosen.device)  # (P,)
        return chosen & (place % every == (noise.shift * every).long()[:, None])


@register("objective", "adlm")
class AnchoredDiffusion(AnchoredObjective):
    """ADLM: an anchor network in front of masked diffusion."""

    causal, exact = False, False
    knows = MaskedDiffusion.knows
    base_class = MaskedDiffusion


@register("objective", "adlm-bd3lm")
class AnchoredBlockDiffusion(AnchoredObjective):
    """An anchor network in front of block diffusion; both see a row as block diffusion does."""

    causal, exact, in_blocks = False, False, True
    knows = BlockDiffusion.knows
    base_class = BlockDiffusion


@register("objective", "a2r")
class AnchoredAutoregressive(AnchoredObjective):
    """A2R: an anchor network in front of an autoregressive model."""

    causal, exact = True, True
    base_class = Autoregressive
