"""Samplers of order-aware masked diffusion: a position's rate depends on the token it will have.

With mu the network's distribution at a masked position, the step from t to s writes v with

    q(z_s = v | z_t = m, mu) = mu(v) (1 - (s / t)^{k_v}),

so a token is proposed and written with its own probability. In the time -log t the rate of v is
k_v mu(v), whatever the time is: the next position is drawn in proportion to its rate, the sum of
k_v mu(v) over v, and its token in proportion to k_v mu(v). That takes one pass a token and no small
steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from adlm.config import Config
from adlm.process.order import OrderedMask
from adlm.registry import register
from adlm.samplers.base import Policy, clock
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import inverse


def order_of(canvas: Canvas) -> OrderedMask:
    """The process of a canvas; where it has no order, every token's rate is alike."""
    kernel = canvas.kernel
    if isinstance(kernel, OrderedMask):
        return kernel
    even = torch.ones(kernel.size, dtype=torch.float64, device=canvas.z.device)
    return OrderedMask(kernel.schedule, kernel.mask, kernel.size, even)


@register("sampler", "order-ancestral")
@dataclass(frozen=True)
class OrderAncestral(Policy):
    """The reverse process of order-aware masking, in steps."""

    parameterizations: ClassVar[tuple[str, ...]] = ("order",)

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        order, stay = order_of(canvas), torch.tensor(s / t, dtype=torch.float64)
        k = order.exponents
        likely = canvas.open & (canvas.chance < 1 - stay ** k.max())  # no token is written beyond
        use = partial(self.proposed, canvas, order, t)
        found = canvas.spread(likely, *canvas.ask(use, likely, canvas.token_chance))
        canvas.place(likely & (canvas.chance < 1 - stay.to(k.device) ** k[found[0]]), *found)

    @staticmethod
    def proposed(
        canvas: Canvas, order: OrderedMask, t: float, logits: Tensor, u: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return a token of each position, and its probability: (N,), from (N, V) logits."""
        return canvas.draw(order.tilted(logits, t), u, canvas.mask)


@register("sampler", "order-hitting")
@dataclass(frozen=True)
class OrderHitting(Policy):
    """One position of each row a step, the one that is written first; for networks without time."""

    parameterizations: ClassVar[tuple[str, ...]] = ("order",)

    @classmethod
    def serves(cls, config: Config) -> bool:
        timed = config.process.tilt or config.process.conditioned
        return super().serves(config) and not timed

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        return clock(int(canvas.open.sum(dim=1).max()))

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        waiting = canvas.open
        use = partial(self.rated, canvas, order_of(canvas).exponents)
        tokens, sure, rate = canvas.ask(use, waiting, canvas.token_chance)
        needed = torch.full(waiting.shape, torch.inf, dtype=torch.float64, device=waiting.device)
        wait = -torch.log1p(-canvas.chance[waiting].double()) / rate  # Exp(rate)
        needed = needed.masked_scatter(waiting, wait)
        first = torch.zeros_like(waiting).scatter(1, needed.argmin(dim=1, keepdim=True), True)
        canvas.place(first & waiting, *canvas.spread(waiting, tokens, sure))

    @staticmethod
    def rated(
        canvas: Canvas, exponents: Tensor, logits: Tensor, u: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a token, its probability and the position's rate: (N,), from (N, V) logits."""
        p = canvas.draw.probabilities(logits, canvas.mask)
        rates = p * exponents  # (N, V)
        token = inverse(rates, u)
        return token, p.gather(1, token[:, None]).squeeze(1), rates.sum(dim=1)
