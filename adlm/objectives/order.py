"""Order-aware masked diffusion: anchors in the process (see `process/order.py`).

A token v is hidden with probability t^{k_v} at time t, and a hidden one is written at the rate
k_v / t. With mu the network's distribution at a masked position whose token is x, the rates of the
true and of the model's reverse process, k_x / t and k_v mu(v) / t, cost

    (1 / t) [ k_x (-log mu(x)) + sum_v k_v mu(v) - k_x ]

in the bound; all k = 1 give MDLM's -log mu(x) / t. With `process.tilt` mu is the softmax of
logits + k log t: by Bayes' rule, what p(token | context) becomes for a token that is hidden at t.

With exactly j of n tokens hidden, n / sum of their k stands for 1 / t: it depends on which tokens
they are, so a network that is trained with another factor learns another distribution.
`process.weight` acts on its part n / j alone, which the network can see, and leaves j / sum k: the
best network is that of the bound. With bernoulli masking it acts on 1 / t, which only a tilted
network sees.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.nn.chunked import chunked
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import pick
from adlm.objectives.mdlm import MaskedDiffusion
from adlm.process.order import exponents, hide_by_time, hide_in_order
from adlm.registry import register
from adlm.types import Batch, Noise, Noised, View


@register("objective", "order")
class OrderedDiffusion(MaskedDiffusion):
    """Restore tokens of which some stay visible longer than others."""

    parameterization = "order"
    knows = ("order", "tilt")

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        check_order(config)
        self.config, self.vocab = config, vocab
        self.plain = not config.process.order  # MDLM itself
        self.tilt = config.process.tilt and not self.plain
        if not self.plain:
            self.estimator += f", order {config.process.order:g} by {config.process.order_by}"

    @classmethod
    def needs_counts(cls, config: Config) -> bool:
        return config.process.order != 0

    @cached_property
    def exponents(self) -> Tensor:
        """(V,) k, made when they are first needed: settings are checked without a corpus."""
        return exponents(self.config, self.vocab, self.counts).float()

    def corrupt(self, batch: Batch, noise: Noise) -> tuple[Noised, Tensor]:
        if self.plain:
            return super().corrupt(batch, noise)
        k = self.exponents.to(batch.x.device)
        if self.config.process.masking == "exact-k":
            return hide_in_order(batch.x, batch.scored, noise, self.mask, k)
        t, scale = self.eps + (1 - self.eps) * noise.t, 1.0
        if self.bound:  # t = v^c: dt / t is c dv / v, and no token is hidden more often than v
            scale = max(1.0, 1 / float(self.exponents.min()))
        made = hide_by_time(batch.x, batch.scored, Noise(t**scale, noise.u), self.mask, k)
        return replace(made, weight=scale / t), t**scale

    def weigh(self, batch: Batch, noised: Noised) -> Tensor:
        if self.plain or self.bound or self.config.process.masking != "exact-k":
            return super().weigh(batch, noised)
        k = self.exponents.to(batch.x.device)[batch.x]  # (B, L)
        hidden = noised.masked.sum(dim=1).clamp(min=1)
        mean = torch.where(noised.masked, k, 0.0).sum(dim=1) / hidden  # sum k / j
        mean = torch.where(mean > 0, mean, 1.0).to(noised.weight.dtype)
        return self.weight(noised.weight * mean) / mean

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        if self.plain:
            return super().loss(h, head, view)
        assert view.t is not None
        k = self.exponents.to(h.device)
        x, row = view.x[view.wanted], view.wanted.nonzero()[:, 0]
        log_t = view.t.log()[row] if self.tilt else torch.zeros_like(row, dtype=k.dtype)
        cost = partial(order_cost, exponents=k, mask=self.mask)
        return chunked(cost, h, head, view.scale, x, log_t)


def order_cost(logits: Tensor, x: Tensor, log_t: Tensor, exponents: Tensor, mask: int) -> Tensor:
    """k_x (-log mu(x)) + sum_v k_v mu(v) - k_x: (N, V) logits, (N,) tokens and log t -> (N,).

    Example:
        >>> one, k = torch.zeros(1, 3), torch.tensor([1.0, 3.0, 1.0])
        >>> order_cost(one, torch.tensor([0]), torch.zeros(1), k, mask=2)  # log 2 + (1 + 3) / 2 - 1
        tensor([1.6931])
    """
    k = exponents.to(logits.dtype)
    is_mask = torch.arange(logits.shape[1], device=logits.device) == mask
    tilted = logits + k * log_t.to(logits.dtype)[:, None]
    log_mu = F.log_softmax(tilted.masked_fill(is_mask, -torch.inf), dim=1)
    return log_mu.exp() @ k - k[x] * (1 + pick(log_mu, x))


def check_order(config: Config) -> None:
    """Raise UserError on settings that order-aware masking cannot have."""
    process = config.process
    if process.schedule != "log-linear" or process.steps or process.remask:
        raise UserError(
            f"the objective {config.objective} has alpha = 1 - t^k in continuous time: "
            "process.schedule must be log-linear, process.steps and process.remask 0"
        )
    if process.order_by == "anchors" and config.anchor.rule != "corpus":
        raise UserError(
            "process.order_by anchors gives every token its exponent: anchor.rule must be corpus, "
            f"which looks at no row, found '{config.anchor.rule}'"
        )


@register("objective", "adlm-order")
class AnchoredOrder(AnchoredObjective):
    """An anchor network in front of order-aware masked diffusion."""

    causal, exact = False, False
    parameterization, knows = OrderedDiffusion.parameterization, OrderedDiffusion.knows
    base_class = OrderedDiffusion
