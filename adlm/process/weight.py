"""What a row counts in training, as a function of its weight in the bound.

What is reported is always the bound. What is minimised may be weighted as it learns best: the
bound's own weight, 1 / t, gives a row with few hidden tokens as much of the gradient as one with
many, and such a row is noisy and easy.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from adlm.errors import UserError
from adlm.registry import create, register


class Weight(Protocol):
    """Weights of rows in the bound: (B,) -> weights in what is minimised: (B,)."""

    def __call__(self, weight: Tensor) -> Tensor: ...


@register("weight", "bound")
class Bound:
    """The bound itself is minimised."""

    def __call__(self, weight: Tensor) -> Tensor:
        return weight


@register("weight", "flat")
class Flat:
    """Every hidden token counts alike. About half are hidden: 2 keeps the loss in nats a token.

    Example:
        >>> Flat()(torch.tensor([50.0, 1.0]))
        tensor([2., 2.])
    """

    def __call__(self, weight: Tensor) -> Tensor:
        return torch.full_like(weight, 2.0)


@register("weight", "clamp")
class Clamp:
    """The bound's weight, at most `most`.

    Example:
        >>> Clamp(1.5)(torch.tensor([50.0, 1.0]))
        tensor([1.5000, 1.0000])
    """

    def __init__(self, most: float = 1.5):
        if not most > 0:
            raise UserError(f"process.weight clamp:MOST needs a number above 0, found {most:g}")
        self.most = most

    def __call__(self, weight: Tensor) -> Tensor:
        return weight.clamp(max=self.most)


def make_weight(spec: str) -> Weight:
    """Return the weight that 'bound', 'flat' or 'clamp:MOST' names.

    Example:
        >>> make_weight("clamp:3").most
        3.0
    """
    return create("weight", spec, "process.weight", "bound, flat or clamp:MOST")
