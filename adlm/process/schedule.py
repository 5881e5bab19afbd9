"""Noise schedules alpha_t, the share of tokens still visible: alpha_0 = 1, alpha_1 = 0.

In continuous time the NELBO weighs the cross-entropy of the masked tokens by

    weight(t) = -alpha'(t) / (1 - alpha(t)).
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from adlm.errors import UserError
from adlm.registry import create, lookup, outside, register


class Schedule(Protocol):
    """A decreasing alpha(t) on [0, 1] with its derivative, weight and inverses."""

    def alpha(self, t: Tensor) -> Tensor: ...
    def dalpha(self, t: Tensor) -> Tensor: ...
    def weight(self, t: Tensor) -> Tensor: ...
    def t_of_alpha(self, alpha: Tensor) -> Tensor: ...


@register("schedule", "log-linear")
class LogLinear:
    """alpha = 1 - t, so -log alpha is the log-linear noise level of MDLM; weight = 1 / t.

    Example:
        >>> LogLinear().weight(torch.tensor(0.25))
        tensor(4.)
    """

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - t

    def dalpha(self, t: Tensor) -> Tensor:
        return -torch.ones_like(t)

    def weight(self, t: Tensor) -> Tensor:
        return 1 / t

    def t_of_alpha(self, alpha: Tensor) -> Tensor:
        return 1 - alpha


@register("schedule", "cosine")
class Cosine:
    """alpha = 1 - cos(pi/2 (1 - t)); weight = pi/2 tan(pi/2 (1 - t)).

    Example:
        >>> Cosine().alpha(torch.tensor([0.0, 1.0]))
        tensor([1., 0.])
    """

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - torch.cos(math.pi / 2 * (1 - t))

    def dalpha(self, t: Tensor) -> Tensor:
        return -math.pi / 2 * torch.sin(math.pi / 2 * (1 - t))

    def weight(self, t: Tensor) -> Tensor:
        return math.pi / 2 * torch.tan(math.pi / 2 * (1 - t))

    def t_of_alpha(self, alpha: Tensor) -> Tensor:
        return 1 - torch.acos(1 - alpha) * (2 / math.pi)


@register("schedule", "polynomial")
class Polynomial:
    """alpha = 1 - t^p; weight = p / t. p = 1 is log-linear, p = 2 keeps more visible early on.

    Example:
        >>> Polynomial(2).alpha(torch.tensor(0.5))
        tensor(0.7500)
    """

    def __init__(self, power: float = 2.0):
        if not 0 < power < math.inf:
            raise UserError(f"the polynomial schedule's power must be above 0, found {power}")
        self.power = power

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - t**self.power

    def dalpha(self, t: Tensor) -> Tensor:
        return -self.power * t ** (self.power - 1)

    def weight(self, t: Tensor) -> Tensor:
        return self.power / t

    def t_of_alpha(self, alpha: Tensor) -> Tensor:
        return (1 - alpha) ** (1 / self.power)


@register("schedule", "geometric")
class Geometric:
    """sigma = -log alpha grows geometrically, up to `most`: alpha_1 is not 0 but e^-20,

        sigma = least ((most / least)^t - 1).

    It is for SEDD with uniform noise, whose scores at alpha = 0 would count without end. The
    published sigma is larger by `least` = 1e-4, so that it is not 0 at t = 0.

    Example:
        >>> Geometric().alpha(torch.tensor([0.0, 0.5]))
        tensor([1.0000, 0.9564])
    """

    def __init__(self, least: float = 1e-4, most: float = 20.0):
        if not 0 < least < most < math.inf:
            raise UserError(
                "process.schedule geometric:LEAST:MOST needs 0 < LEAST < MOST, "
                f"found {least:g} and {most:g}"
            )
        self.least, self.most = least, most
        self.rate = math.log(most / least)

    def sigma(self, t: Tensor) -> Tensor:
        return self.least * torch.expm1(self.rate * t)

    def dsigma(self, t: Tensor) -> Tensor:
        return self.least * self.rate * torch.exp(self.rate * t)

    def alpha(self, t: Tensor) -> Tensor:
        return torch.exp(-self.sigma(t))

    def dalpha(self, t: Tensor) -> Tensor:
        return -self.dsigma(t) * self.alpha(t)

    def weight(self, t: Tensor) -> Tensor:
        return self.dsigma(t) / torch.expm1(self.sigma(t))

    def t_of_alpha(self, alpha: Tensor) -> Tensor:
        return torch.log1p(-torch.log(alpha) / self.least) / self.rate


GONE = 1e-6  # of a text that may be visible at t = 1 where all counts as hidden


def alpha_at_end(schedule: Schedule) -> float:
    """Return the share of a text that is left at t = 1.

    Example:
        >>> alpha_at_end(LogLinear()), round(alpha_at_end(Geometric(0.01, 0.5)), 2)
        (0.0, 0.61)
    """
    return float(schedule.alpha(torch.ones(1, dtype=torch.float64)))


def check_end(schedule: Schedule, spec: str) -> None:
    """Raise UserError where a text is not all hidden at t = 1: what is left would cost no nats."""
    if (left := alpha_at_end(schedule)) > GONE:
        raise UserError(
            f"process.schedule {spec} leaves {left:.2g} of a text visible at t = 1, where masks "
            "must hide all of it: take a schedule whose alpha ends at 0"
        )


def make_schedule(spec: str) -> Schedule:
    """Return the schedule that 'name' or 'name:parameter' names.

    Example:
        >>> make_schedule("polynomial:3").power
        3.0
    """
    if outside("schedule", spec):
        return own_schedule(spec)
    right = "a name, or polynomial:POWER or geometric:LEAST:MOST"
    return create("schedule", spec, "process.schedule", right)


def own_schedule(name: str) -> Schedule:
    """Return a user's schedule, module:Class, where that is allowed."""
    kind = lookup("schedule", name)
    needed = [m for m in vars(Schedule) if not m.startswith("_")]
    missing = [m for m in needed if not callable(getattr(kind, m, None))]
    if not isinstance(kind, type) or missing:
        raise UserError(
            f"the schedule '{name}' must be a class with {', '.join(needed)}; "
            f"it lacks {', '.join(missing) or 'being a class'}"
        )
    return kind()
