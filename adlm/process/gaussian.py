"""Duo's curriculum: uniform noise is the argmax of a Gaussian one, and its softmax is softer.

    w = a x + epsilon,  epsilon ~ N(0, 1) for each of the N real tokens,  a = e^{-gamma / 2},
    z = argmax w,       shown to the network: softmax(w / (tau sqrt(1 + a^2))) instead of z.

z is x with probability I(a) = E Phi(a + epsilon)^{N-1} and else any other token alike, which is the
uniform kernel with alpha = (N I - 1) / (N - 1). Only x's own number and the largest of the others
count at a low temperature tau, so only those are drawn: the largest of M uniform numbers is
U^{1/M}, the next one that times U^{1/(M-1)}, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

OTHERS = 8  # largest of the other tokens' numbers that are drawn
NUMBERS = 1 + 2 * OTHERS  # uniform numbers that a position takes
REACH, NODES = 9.0, 600  # of the integral over epsilon


@dataclass(frozen=True)
class Gaussian:
    """Noise of N real tokens with gamma from `low` at v = 0 to `high` at v = 1, as published."""

    real: int
    low: float = -3.5
    high: float = -1.75
    tau: float = 1e-3

    def strength(self, v: Tensor) -> Tensor:
        """a, by which x stands out of the noise."""
        return torch.exp(-(self.low + (self.high - self.low) * v) / 2)

    def alpha(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """alpha of the uniform kernel and its derivative by v: (B,) each, fp64."""
        a = self.strength(v.double())[:, None]
        grid = torch.linspace(-REACH, REACH, NODES, dtype=torch.float64, device=v.device)
        density = torch.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi) * (grid[1] - grid[0])
        others = torch.exp((self.real - 1) * torch.special.log_ndtr(a + grid))  # (B, NODES)
        chance, by_a = (density * others).sum(1), (density * grid * others).sum(1)
        by_v = by_a * -a.squeeze(1) * (self.high - self.low) / 2
        scale = self.real / (self.real - 1)
        return scale * chance - 1 / (self.real - 1), scale * by_v

    def draw(self, x: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the likeliest tokens, the first one z, and their shares: (B, L, 1 + OTHERS) each.

        x: (B, L) tokens of 0..N-1, v: (B,), u: (B, L, NUMBERS) uniform in [0, 1).
        """
        count = min(OTHERS, self.real - 1)
        tiny = torch.finfo(torch.float64).tiny
        chance = u.double().clamp(tiny, 1 - 1e-16)
        a = self.strength(v.double())[:, None, None]
        own = a + torch.special.ndtri(chance[..., :1])
        left = self.real - 1 - torch.arange(count, device=x.device)  # N-1, N-2, ...
        largest = (chance[..., 1 : 1 + count].log() / left).cumsum(dim=-1)  # logs of the largest
        value = -torch.special.ndtri(-torch.expm1(largest))
        tokens = distinct(x, chance[..., 1 + OTHERS : 1 + OTHERS + count], self.real)
        w = torch.cat((own, value), dim=-1) / torch.sqrt(1 + a**2)
        w, order = w.sort(dim=-1, descending=True)
        return tokens.gather(-1, order), torch.softmax(w / self.tau, dim=-1)


def distinct(x: Tensor, u: Tensor, real: int) -> Tensor:
    """x and other tokens of 0..real-1, no two alike: (B, L), (B, L, K) -> (B, L, 1 + K)."""
    taken = x[..., None]
    for k in range(u.shape[-1]):
        token = (u[..., k] * (real - 1 - k)).long().clamp(max=real - 2 - k)
        for used in taken.sort(dim=-1).values.unbind(-1):
            token = token + (token >= used)
        taken = torch.cat((taken, token[..., None]), dim=-1)
    return taken
