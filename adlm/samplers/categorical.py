"""Draws from a distribution over tokens, in fp64: fp32 noise would lower the temperature."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adlm.config import check
from adlm.process.mask import forbid_mask

COLDEST, HOTTEST = 1e-6, 1e6  # temperatures by which logits can be divided


@dataclass(frozen=True)
class Draw:
    """How a token is drawn from logits.

    Attributes:
        temperature: Divides the logits; 0 takes the likeliest token.
        top_k: Keep only so many of the likeliest tokens; 0 = all.
        nucleus: Keep the likeliest tokens up to this share of the probability; 1 = all.
        compat: The published code's nucleus, which leaves out the token that passes the share (the
            likeliest always stays).
    """

    temperature: float = 1.0
    top_k: int = 0
    nucleus: float = 1.0
    compat: bool = False

    def __post_init__(self) -> None:
        good = self.temperature == 0 or COLDEST <= self.temperature <= HOTTEST
        right = f"0 (the likeliest token), or from {COLDEST:g} to {HOTTEST:g}"
        check(good, "--draw.temperature", self.temperature, right)
        check(self.top_k >= 0, "--draw.top_k", self.top_k, "0 (all tokens) or more")
        check(0 < self.nucleus <= 1, "--draw.nucleus", self.nucleus, "in (0, 1]")

    def probabilities(self, logits: Tensor, forbid: int | None) -> Tensor:
        """(N, V) logits -> (N, V) fp64 probabilities; `forbid` (the mask) gets none."""
        logits = logits.to(torch.float64, copy=True)
        if forbid is not None:
            logits = forbid_mask(logits, forbid)
        if self.temperature == 0:
            return torch.zeros_like(logits).scatter(1, logits.argmax(1, keepdim=True), 1.0)
        p = (logits / self.temperature).softmax(dim=1)
        if self.top_k and self.top_k < p.shape[1]:
            least = p.topk(self.top_k, dim=1).values[:, -1:]
            p = p.masked_fill(p < least, 0.0)
        if self.nucleus < 1:
            ordered, order = p.sort(dim=1, descending=True)
            share = self.nucleus * p.sum(1, keepdim=True)
            mass = ordered.cumsum(1)  # of a token and all likelier ones
            over = mass > share if self.compat else mass - ordered >= share
            over[:, 0] = False
            p = p.masked_fill(torch.zeros_like(over).scatter(1, order, over), 0.0)
        return p / p.sum(dim=1, keepdim=True)

    def __call__(self, logits: Tensor, u: Tensor, forbid: int) -> tuple[Tensor, Tensor]:
        """Return tokens by inverse transform of u: (N,) in [0, 1), and their probabilities: (N,).

        The probabilities are the model's own, whatever was cut off for the draw.

        Example:
            >>> logits = torch.tensor([[0.0, 0.0, -100.0]])
            >>> Draw()(logits, torch.tensor([0.75], dtype=torch.float64), forbid=2)[0]
            tensor([1])
        """
        own = Draw().probabilities(logits, forbid)
        p = own if self == Draw() else self.probabilities(logits, forbid)
        token = inverse(p, u)
        return token, own.gather(1, token[:, None]).squeeze(1)


def inverse(p: Tensor, u: Tensor) -> Tensor:
    """Return tokens by inverse transform of u: (N,) in [0, 1), from (N, V) probabilities.

    Example:
        >>> inverse(torch.tensor([[0.5, 0.5]]), torch.tensor([0.75]))
        tensor([1])
    """
    edges = p.cumsum(dim=1)
    token = torch.searchsorted(edges, u[:, None] * edges[:, -1:], right=True)
    return token.clamp(max=p.shape[1] - 1).squeeze(1)
