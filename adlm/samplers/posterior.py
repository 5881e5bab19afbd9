"""Ancestral sampling for any kernel: every free position is drawn anew from the step back,

    z_s ~ q(z_s | z_t, x_theta) = q_{t|s}(z_t | z_s) q_s(z_s | x_theta) / q_t(z_t | x_theta).

With masks it is MDLM's ancestral sampling; where noise is a real token, what is written may be
rewritten. D3PM's network may predict the mask, and at last reads the text off z_0 as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from adlm.config import Config, check
from adlm.registry import register
from adlm.samplers.base import Policy, clock
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import Draw, inverse


@register("sampler", "posterior")
@dataclass(frozen=True)
class Posterior(Policy):
    """The reverse process of the training kernel."""

    parameterizations: ClassVar[tuple[str, ...]] = ("prediction",)

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        now, then = torch.tensor([t, s], dtype=torch.float64, device=canvas.z.device)
        waiting = canvas.free if canvas.kernel.uniform else canvas.open
        use = partial(self.back, canvas, now, then)
        tokens, sure = canvas.ask(use, waiting, canvas.z, canvas.token_chance)
        canvas.change(waiting, tokens, sure)
        if canvas.reads and s == 0:
            canvas.tell(torch.ones_like(canvas.alpha))
            canvas.next_step()
            canvas.change(canvas.free, *canvas.propose(canvas.free))

    def back(
        self, canvas: Canvas, t: Tensor, s: Tensor, logits: Tensor, z: Tensor, u: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Tokens of time s and the network's probability of each: (N,), from (N, V) logits."""
        forbid = None if canvas.reads else canvas.mask
        p = canvas.draw.probabilities(logits, forbid)
        token = inverse(canvas.kernel.posterior(p, z, t, s), u)
        return token, p.gather(1, token[:, None]).squeeze(1)


@register("sampler", "self-correct")
@dataclass(frozen=True)
class SelfCorrect(Posterior):
    """`posterior`, and then GIDD's self-correction: of all tokens proposed anew by the network at a
    little noise, with a low temperature, the surest that differs replaces its position's.

    `corrections` steps of one token each; a row of which nothing differs is done.
    """

    corrections: int = 32
    level: float = 0.01
    temperature: float = 0.1

    def __post_init__(self) -> None:
        check(self.corrections >= 0, "--policy.corrections", self.corrections, "0 or more")
        check(0 < self.level < 1, "--policy.level", self.level, "above 0 and below 1")
        check(self.temperature > 0, "--policy.temperature", self.temperature, "above 0")

    @classmethod
    def serves(cls, config: Config) -> bool:
        return super().serves(config) and config.process.kernel != "mask"

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[float, float]]:
        yield from clock(steps)
        for _ in range(self.corrections):
            yield self.level, self.level

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        if t > s:
            return super().step(canvas, t, s)
        free = canvas.free
        draw = Draw(temperature=self.temperature)
        use = partial(self.proposed, draw, canvas.mask)
        tokens, sure, own = canvas.ask(use, free, canvas.token_chance)
        score = torch.full(free.shape, -1.0, dtype=torch.float64, device=free.device)
        tokens, own = canvas.spread(free, tokens, own)  # (B, L)
        score = score.masked_scatter(free, sure).masked_fill(tokens == canvas.z, -1.0)
        order = score.round(decimals=6) + 1e-7 * canvas.chance  # equally sure but for rounding
        best, place = order.max(dim=1, keepdim=True)
        chosen = torch.zeros_like(free).scatter(1, place, best >= 0)
        canvas.place(chosen, tokens, own)

    @staticmethod
    def proposed(draw: Draw, mask: int, logits: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """Return a token of each position, its probability as drawn, and the network's own."""
        p = draw.probabilities(logits, mask)
        token = inverse(p, u)[:, None]
        own = Draw().probabilities(logits, mask)
        return token.squeeze(1), p.gather(1, token).squeeze(1), own.gather(1, token).squeeze(1)
