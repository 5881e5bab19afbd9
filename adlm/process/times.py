"""Time draws: B independent uniform numbers become B times in (0, 1].

Spreading the times of one batch evenly lowers the variance of the loss without biasing it. A rule
is `even` when each of its times is uniform by itself: only then is the loss with the bound's own
weight the bound. `bell` is not: it draws the times at which a model learns most more often.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from adlm.errors import UserError
from adlm.registry import create, register


class Times(Protocol):
    """u: (B,) in [0, 1) -> t: (B,) in (0, 1]."""

    even: bool

    def __call__(self, u: Tensor) -> Tensor: ...


@register("times", "uniform")
class UniformTimes:
    """Independent times."""

    even = True

    def __call__(self, u: Tensor) -> Tensor:
        return 1 - u


@register("times", "antithetic")
class Antithetic:
    """Pairs t and 1 - t: row 2i + 1 mirrors row 2i.

    Example:
        >>> Antithetic()(torch.tensor([0.25, 0.9]))
        tensor([0.7500, 0.2500])
    """

    even = True

    def __call__(self, u: Tensor) -> Tensor:
        even = u[0::2].repeat_interleave(2)[: len(u)]  # (B,)
        odd = torch.arange(len(u), device=u.device) % 2 == 1
        return torch.where(odd, even, 1 - even).clamp(min=torch.finfo(u.dtype).tiny)


@register("times", "stratified")
class Stratified:
    """One time in each of B equal strata: what the published code calls antithetic.

    Example:
        >>> Stratified()(torch.tensor([0.0, 0.5]))
        tensor([0.5000, 0.7500])
    """

    even = True

    def __call__(self, u: Tensor) -> Tensor:
        stratum = torch.arange(len(u), device=u.device)
        return (stratum + 1 - u) / len(u)


@register("times", "bell")
class Bell:
    """Stratified times from the normal N(centre, width^2), cut to [EARLIEST, 1].

        t = centre + width Phi^-1(v),   v stratified on [Phi at EARLIEST, Phi at 1].

    Few times are near 0, where little is hidden and every token is easy, and few are near 1, where
    nothing is known and none can be told.

    Example:
        >>> Bell(0.5, 0.2)(torch.full((3,), 0.5))
        tensor([0.3111, 0.5005, 0.6905])
    """

    even = False
    EARLIEST = 0.02

    def __init__(self, centre: float = 0.5, width: float = 0.2):
        if not (0 <= centre <= 1 and 0.01 <= width <= 10):
            raise UserError(
                "process.times bell:CENTRE:WIDTH needs a centre in [0, 1] and a width in "
                f"[0.01, 10], found {centre:g} and {width:g}"
            )
        self.centre, self.width = centre, width

    def __call__(self, u: Tensor) -> Tensor:
        edges = torch.tensor([self.EARLIEST, 1.0], dtype=torch.float64, device=u.device)
        low, high = torch.special.ndtr((edges - self.centre) / self.width)
        v = low + (high - low) * Stratified()(u.double())
        t = self.centre + self.width * torch.special.ndtri(v)
        return t.clamp(self.EARLIEST, 1.0).to(u.dtype)


def make_times(spec: str) -> Times:
    """Return the rule that 'name' or 'bell:CENTRE:WIDTH' names.

    Example:
        >>> make_times("bell:0.6").centre
        0.6
    """
    return create("times", spec, "process.times", "a name, or bell:CENTRE:WIDTH")
