"""Remasking (ReMDM) and correctors: tokens that are written may be taken back.

The step is `process/reverse.py`'s; a rule is one formula for its remasking probability sigma. The
correctors are such rules too: a_t - b_t = 1 in discrete flow matching gives

    sigma = b_t (alpha_s - alpha_t) / alpha_t,

and b = 1 is the forward-backward corrector. Where the published code shortens the step because
sigma would pass sigma_max, sigma is cut off here, and the number of steps stays what was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adlm.config import check
from adlm.process.reverse import Transition
from adlm.registry import register
from adlm.samplers.base import Policy, Time
from adlm.samplers.canvas import Canvas


@dataclass(frozen=True)
class Move(Transition):
    """One step of the clock, for rows of `length` positions.

    Example:
        >>> amid = Loop(None).move(0.5, 0.4, 64)
        >>> round(amid.unmask(sigma=0.02).item(), 4)
        0.18
    """

    t: Time
    s: Time
    length: int | Tensor  # or (B, 1), where rows differ


@dataclass(frozen=True)
class Remasking(Policy):
    """A rule overrides `sigma`."""

    ragged: ClassVar[bool] = True

    def sigma(self, move: Move) -> float | Tensor:
        """Return the remasking probability; what is above `move.sigma_max` is cut off."""
        raise NotImplementedError

    def move(self, t: Time, s: Time, length: int | Tensor) -> Move:
        step = self.transition(t, s)
        return Move(step.alpha_t, step.alpha_s, t, s, length)

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        move = self.move(t, s, canvas.length)
        sigma = move.cut(self.sigma(move))
        back = self.taken_back(canvas, move, sigma)
        canvas.fill(canvas.open & (canvas.chance < move.unmask(sigma)))
        canvas.remask(back)

    def taken_back(self, canvas: Canvas, move: Move, sigma: Tensor) -> Tensor:
        """(B, L) written positions that are masked again."""
        return canvas.written & (canvas.chance < sigma)


@register("sampler", "remdm-cap")
@dataclass(frozen=True)
class Cap(Remasking):
    """sigma = min(eta, sigma_max). eta 0.04 suits a few hundred steps, 0.008 a thousand."""

    eta: float = 0.04

    def __post_init__(self) -> None:
        check(0 <= self.eta <= 1, "--policy.eta", self.eta, "in [0, 1]")

    def sigma(self, move: Move) -> float | Tensor:
        return self.eta


@register("sampler", "remdm-rescale")
@dataclass(frozen=True)
class Rescale(Remasking):
    """sigma = eta * sigma_max."""

    eta: float = 0.015

    def __post_init__(self) -> None:
        check(0 <= self.eta <= 1, "--policy.eta", self.eta, "in [0, 1]")

    def sigma(self, move: Move) -> float | Tensor:
        return self.eta * move.sigma_max


@register("sampler", "remdm-switch")
@dataclass(frozen=True)
class Switch(Cap):
    """remdm-cap from the time t_switch on; nothing is taken back before."""

    t_switch: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.t_switch <= 1, "--policy.t_switch", self.t_switch, "in [0, 1]")

    def sigma(self, move: Move) -> float | Tensor:
        return only(move.t <= self.t_switch, self.eta)


@register("sampler", "remdm-conf")
@dataclass(frozen=True)
class Conf(Remasking):
    """Unsure tokens are taken back first.

    How many is drawn as with sigma = sigma_max / L, about one a step at most; which ones by
    softmax(-psi), psi being a token's probability when it was written. Choosing the number first
    keeps the share of visible tokens at alpha_s exactly. `published` draws each position with
    sigma_max softmax(-psi) on its own and writes masked ones as if nothing were taken back, as the
    published code does: more stays masked than alpha_s says, until the last step.
    """

    published: bool = False

    def sigma(self, move: Move) -> float | Tensor:
        return 0.0 if self.published else move.sigma_max / move.length

    def taken_back(self, canvas: Canvas, move: Move, sigma: Tensor) -> Tensor:
        written = canvas.written
        doubt = -canvas.probability.masked_fill(~written, torch.inf)
        if self.published:
            return written & (canvas.chance < move.sigma_max * doubt.softmax(dim=1).nan_to_num())
        count = (written & (canvas.chance < sigma)).sum(dim=1, keepdim=True)  # (B, 1)
        # the largest of doubt + Gumbel noise are a draw without replacement by softmax(doubt)
        noise = -(-canvas.token_chance.clamp(min=1e-300).log()).log()
        rank = (doubt + noise).argsort(dim=1, descending=True).argsort(dim=1)
        return written & (rank < count)


@register("sampler", "remdm-loop")
@dataclass(frozen=True)
class Loop(Remasking):
    """Write up to alpha_on, refine at that level from t_on to t_off, then finish.

    t > t_on           alpha = (1 - t) alpha_on / (1 - t_on),      sigma = 0
    t_off < t <= t_on  alpha = alpha_on,                           sigma = eta
    t <= t_off         alpha = 1 - t (1 - alpha_on) / t_off,       sigma = 0
    """

    eta: float = 0.02
    t_on: float = 0.55
    t_off: float = 0.05
    alpha_on: float = 0.9

    def __post_init__(self) -> None:
        on = self.alpha_on
        check(0 < on < 1, "--policy.alpha_on", on, "above 0 and below 1")
        check(0 < self.t_on < 1, "--policy.t_on", self.t_on, "above 0 and below 1")
        check(
            0 < self.t_off < self.t_on, "--policy.t_off", self.t_off, f"above 0, below {self.t_on}"
        )
        most = Transition.of(on, on).sigma_max.item()
        check(
            0 <= self.eta <= most, "--policy.eta", self.eta, f"in [0, {most:.3f}] at alpha_on {on}"
        )

    def alphas(self, t: Time, s: Time) -> tuple[Time, Time]:
        return self.alpha(t), self.alpha(s)

    def alpha(self, t: Time) -> Time:
        on, first = self.alpha_on, (1 - t) * self.alpha_on / (1 - self.t_on)
        last = 1 - t * (1 - on) / self.t_off
        if isinstance(t, Tensor):
            return torch.where(t > self.t_on, first, torch.where(t > self.t_off, on, last))
        return first if t > self.t_on else on if t > self.t_off else last

    def sigma(self, move: Move) -> float | Tensor:
        return only((move.t <= self.t_on) & (move.s >= self.t_off), self.eta)


def only(where: bool | Tensor, value: float) -> float | Tensor:
    """Return the value where it holds, else 0; in fp64 if rows differ."""
    return (where.double() if isinstance(where, Tensor) else where) * value


def corrected(move: Move, b: Time) -> Tensor:
    """sigma = b (alpha_s - alpha_t) / alpha_t; at alpha_t = 0 there is nothing to take back."""
    seen = move.alpha_t > 0
    return torch.where(seen, b * (move.alpha_s - move.alpha_t) / move.alpha_t.where(seen, 1.0), 0.0)


@register("sampler", "forward-backward")
@dataclass(frozen=True)
class ForwardBackward(Remasking):
    """A step forward for each two steps back: b = 1."""

    def sigma(self, move: Move) -> float | Tensor:
        return corrected(move, 1.0)


@register("sampler", "dfm")
@dataclass(frozen=True)
class FlowMatching(Remasking):
    """Discrete flow matching's corrector: b_t = strength t^power (1 - t)^power."""

    strength: float = 10.0
    power: float = 0.25

    def __post_init__(self) -> None:
        check(self.strength >= 0, "--policy.strength", self.strength, "0 or more")
        check(self.power > 0, "--policy.power", self.power, "above 0")

    def sigma(self, move: Move) -> float | Tensor:
        return corrected(move, self.strength * (move.t * (1 - move.t)) ** self.power)
