"""D3PM with absorbing noise in T steps: the mask may be predicted, and nothing is carried over.

With p_m the network's probability of the mask, the reverse step puts its prediction for x. At masks

    T [ rho (n - log x_theta(x)) + (1 - rho) (n - log(1 + alpha_s p_m / (1 - alpha_s))) ],
    rho = (alpha_s - alpha_t) / (1 - alpha_t),     n = log(1 + alpha_t p_m / (1 - alpha_t)),

T times KL( q(z_s | z_t, x) || q(z_s | z_t, x_theta) ); at s = 0 the second part vanishes. The text
is read off z_0 = x by the network as well: -log x_theta(x | z_0, t = 0) at every position.
With the mask forbidden (p_m = 0) it is MDLM's bound with T steps.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.device import bring, wide
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.nn.chunked import chunked
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import STEEP, pick
from adlm.objectives.mdlm import MaskedDiffusion, segments
from adlm.registry import register
from adlm.types import Batch, View


@register("objective", "d3pm")
class DiscreteDiffusion(MaskedDiffusion):
    """Restore hidden tokens step by step; the last step reads the whole text."""

    parameterization = "prediction"
    reads = True
    knows = ()

    def __init__(self, config: Config, vocab: Vocab):
        if not config.process.steps:
            raise UserError(
                f"the objective {config.objective} has discrete steps: process.steps must be at "
                "least 1, found 0"
            )
        if config.process.remask:
            raise UserError(
                f"the objective {config.objective} takes nothing back: process.remask must be 0, "
                f"found {config.process.remask:g}"
            )
        super().__init__(config, vocab)

    @classmethod
    def passes(cls, config: Config) -> float:
        return 2.0

    @classmethod
    def head_share(cls, config: Config) -> float:
        return 0.75  # half of the one pass, all of the other

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        assert view.t is not None
        number = torch.round(view.t.to(wide(h.device)).double() * self.steps)  # (B,)
        alphas = (self.schedule.alpha(i / self.steps) for i in (number, number - 1))
        row, dtype = view.wanted.nonzero()[:, 0], torch.promote_types(h.dtype, torch.float32)
        alpha_t, alpha_s = (bring(alpha, h.device).to(dtype)[row] for alpha in alphas)
        cost = partial(step_divergence, mask=self.mask)
        return chunked(cost, h, head, view.scale, view.x[view.wanted], alpha_t, alpha_s)

    def aside(self, model: Denoiser, batch: Batch) -> tuple[Tensor, Tensor]:
        """The text is read off z_0 = x at every position."""
        sigma = batch.x.new_zeros(len(batch), dtype=torch.float32) if self.conditioned else None
        layout, every = Layout(self.causal, segments(batch)), torch.ones(1, device=batch.x.device)
        view = View(batch.x, batch.x, batch.scored, every.expand(len(batch)))
        states = model(view.z, Context(layout, sigma, wanted=view.wanted))
        x = view.x[view.wanted]
        total, nats = linear_cross_entropy(
            states.denoiser, model.head.weight, model.head.bias, x, view.scale
        )
        return total, view.by_row(nats)


def step_divergence(
    logits: Tensor, x: Tensor, alpha_t: Tensor, alpha_s: Tensor, mask: int
) -> Tensor:
    """KL of a masked position's step over its rho: (N, V) logits, (N,) tokens and alphas -> (N,).

    Example:
        >>> logits = torch.tensor([[0.0, 0.0, -torch.inf]])  # p_m = 0: the cross-entropy
        >>> half, most = torch.tensor([0.5]), torch.tensor([0.75])
        >>> step_divergence(logits, torch.tensor([0]), half, most, mask=2)
        tensor([0.6931])
    """
    log_p = F.log_softmax(logits, dim=1)
    log_m = log_p[:, mask]
    now = F.softplus(log_m + torch.log(alpha_t / (1 - alpha_t)), threshold=STEEP)  # n
    stay = (1 - alpha_s) / (alpha_s - alpha_t)  # (1 - rho) / rho
    odds = torch.where(alpha_s < 1, alpha_s / (1 - alpha_s), 1.0)  # at s = 0 it counts nothing
    before = F.softplus(log_m + torch.log(odds), threshold=STEEP)
    return now - pick(log_p, x) + stay * (now - before)


@register("objective", "adlm-d3pm")
class AnchoredDiscreteDiffusion(AnchoredObjective):
    """An anchor network in front of D3PM."""

    causal, exact = False, False
    parameterization, reads = DiscreteDiffusion.parameterization, True
    base_class = DiscreteDiffusion
