"""SEDD's samplers: steps back by scores that no sum ties together (see `process/score.py`).

The last step to t = 0 is the analytic one in both: what is left is written at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from adlm.process.score import masked_step, uniform_analytic, uniform_euler
from adlm.registry import register
from adlm.samplers.base import Policy
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import inverse


@register("sampler", "analytic")
@dataclass(frozen=True)
class Analytic(Policy):
    """The Tweedie step: exact for the scores of time t."""

    parameterizations: ClassVar[tuple[str, ...]] = ("score",)

    def step(self, canvas: Canvas, t: float, s: float) -> None:
        waiting = canvas.free if canvas.kernel.uniform else canvas.open
        use = partial(self.back, canvas, t, s)
        canvas.change(waiting, *canvas.ask(use, waiting, canvas.z, canvas.token_chance))

    def back(
        self, canvas: Canvas, t: float, s: float, logits: Tensor, z: Tensor, u: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return tokens of time s and the network's share of each: (N,), from (N, V) logits."""
        mask, uniform = canvas.mask, canvas.kernel.uniform
        p = canvas.draw.probabilities(logits, mask)
        real = logits.double().index_fill(1, torch.tensor(mask, device=logits.device), -torch.inf)
        score = real.logsumexp(dim=1, keepdim=True).exp() * p  # (N, V) e^logits, if all is kept
        if not uniform:
            score = score / canvas.kernel.real
        way = self.uniform if uniform else self.masked
        token = inverse(way(score, z, t, s, mask), u)
        return token, p.gather(1, token[:, None]).squeeze(1)

    def masked(self, f: Tensor, z: Tensor, t: float, s: float, mask: int) -> Tensor:
        return written(masked_step(f, float(self.transition(t, s).unmask()), mask), s, mask)

    def uniform(self, score: Tensor, z: Tensor, t: float, s: float, mask: int) -> Tensor:
        alpha_t, alpha_s = self.alphas(t, s)
        return uniform_analytic(score, z, alpha_t / alpha_s, mask)


@register("sampler", "euler")
@dataclass(frozen=True)
class Euler(Analytic):
    """The first order of the same, which many steps need."""

    def masked(self, f: Tensor, z: Tensor, t: float, s: float, mask: int) -> Tensor:
        if s == 0:
            return super().masked(f, z, t, s, mask)
        rate = (t - s) * float(self.schedule.weight(torch.tensor(t, dtype=torch.float64)))
        return masked_step(f, rate, mask)

    def uniform(self, score: Tensor, z: Tensor, t: float, s: float, mask: int) -> Tensor:
        if s == 0:
            return super().uniform(score, z, t, s, mask)
        time = torch.tensor(t, dtype=torch.float64)
        rate = -float(self.schedule.dalpha(time) / self.schedule.alpha(time))
        return uniform_euler(score, z, (t - s) * rate, mask)


def written(step: Tensor, s: float, mask: int) -> Tensor:
    """At s = 0 no mask is left: (N, V) probabilities."""
    if s > 0:
        return step
    step = step.index_fill(1, torch.tensor(mask, device=step.device), 0.0)
    return step / step.sum(dim=1, keepdim=True)
