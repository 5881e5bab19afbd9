"""Confidence sampling: of the tokens proposed at all open positions, the surest are written.

Each step writes an equal part of what is open, or with a threshold all that are sure enough. Fewer
steps, better-looking text, less variety: it does not sample the model's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from adlm.config import check
from adlm.objectives.subs import zero_masking
from adlm.registry import register
from adlm.samplers.base import Policy, Time
from adlm.samplers.canvas import Canvas

MEASURES = ("probability", "margin", "entropy")


@register("sampler", "confidence")
@dataclass(frozen=True)
class Confidence(Policy):
    """The surest positions first.

    `by`: probability of the proposed token, margin between the two likeliest tokens, or entropy
    (the lowest first). `threshold`, if above 0: everything at least so sure is written, and the
    surest in any case; for entropy it is the sureness exp(-entropy).
    """

    parameterizations: ClassVar[tuple[str, ...]] = ("subs", "order")
    ragged: ClassVar[bool] = True
    by: str = "probability"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check(self.by in MEASURES, "--policy.by", self.by, f"one of {', '.join(MEASURES)}")
        check(0 <= self.threshold <= 1, "--policy.threshold", self.threshold, "in [0, 1]")

    def visible(self, canvas: Canvas, t: Time, s: Time) -> Tensor:
        return canvas.shown  # what is written does not follow the schedule

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        waiting = canvas.open
        tokens, probability, sure = canvas.ask(
            partial(self.judged, canvas), waiting, canvas.token_chance
        )
        chosen = surest(waiting, sure, canvas.chance, t, s, self.threshold)
        canvas.place(chosen, *canvas.spread(waiting, tokens, probability))

    def judged(self, canvas: Canvas, logits: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a token, its probability and how sure it is: (N,) each, from (N, V) logits."""
        token, probability = canvas.draw(logits, u, canvas.mask)
        likely = self.by == "probability"
        return token, probability, probability if likely else sureness(logits, canvas.mask, self.by)


def sureness(logits: Tensor, mask: int, by: str) -> Tensor:
    """(N,) in [0, 1], from (N, V) logits."""
    log_p = zero_masking(logits.double(), mask)
    if by == "entropy":
        p = log_p.exp()
        return torch.where(p > 0, p * log_p, 0.0).sum(dim=1).exp()
    two = log_p.topk(2, dim=1).values.exp()
    return two[:, 0] - two[:, 1] if by == "margin" else two[:, 0]


def surest(
    waiting: Tensor, sure: Tensor, chance: Tensor, t: Time, s: Time, threshold: float = 0.0
) -> Tensor:
    """(B, L) positions to write: an equal part of those waiting a step, or all above a threshold.

    Where all is masked, positions are equally sure but for rounding, which depends on the rows
    beside them; `chance`, (B, L) in [0, 1), orders what agrees to six digits.

    Example:
        >>> waiting = torch.tensor([[True, False, True, True]])
        >>> sure, chance = torch.tensor([0.2, 0.5, 0.2]), torch.tensor([[0.1, 0.9, 0.3, 0.8]])
        >>> surest(waiting, sure, chance, 1.0, 1 / 3).tolist()
        [[False, False, True, True]]
    """
    score = torch.full(waiting.shape, -1.0, dtype=torch.float64, device=waiting.device)
    score = score.masked_scatter(waiting, sure.double())
    order = score.round(decimals=6) + 1e-7 * chance
    rank = order.argsort(dim=1, descending=True).argsort(dim=1)
    if threshold:
        chosen = (score >= threshold) | (rank == 0)
        return waiting & (chosen | (s <= 0))
    many = waiting.sum(dim=1, keepdim=True).double()  # (B, 1)
    count = torch.ceil(many * (1 - s / t) - 1e-9)
    return waiting & (rank < count)
