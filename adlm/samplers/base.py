"""The one loop. A policy decides which positions of the canvas change from one time to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from adlm import registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.process.reverse import Transition
from adlm.process.schedule import Schedule
from adlm.samplers.canvas import Canvas
from adlm.values import Options

Time = Any  # float: of all rows; or a tensor, (B, 1): of each, where the policy is `ragged`
Watch = Callable[[int, Canvas], None]  # told the number of each step when it is done, 0 before all


@dataclass(frozen=True)
class Policy:
    """Which positions change from time t to s. Its fields but the schedule are its options."""

    schedule: Schedule
    needs_anchors: ClassVar[bool] = False  # serves models with an anchor network only
    parameterizations: ClassVar[tuple[str, ...]] = ("subs",)  # what networks it serves tell
    ragged: ClassVar[bool] = False  # may rows differ in length, and in their times?

    @classmethod
    def serves(cls, config: Config) -> bool:
        """Can it write with a checkpoint of this configuration?"""
        kind = registry.lookup("objective", config.objective)
        anchors = bool(config.model.anchor_blocks) or not cls.needs_anchors
        return anchors and kind.parameterization in cls.parameterizations

    def times(self, canvas: Canvas, steps: int) -> Iterator[tuple[Time, Time]]:
        """Yield the (t, s) of each step."""
        return clock(steps) if canvas.paces is None else clocks(canvas.paces)

    def step(self, canvas: Canvas, t: Time, s: Time) -> None:
        """Write or take back positions of the canvas, from time t to s < t."""
        raise NotImplementedError

    def alphas(self, t: Time, s: Time) -> tuple[Time, Time]:
        """(alpha_t, alpha_s); alpha_0 is 1 to the last bit, so that the last step writes all."""
        if isinstance(t, Tensor):
            return self.schedule.alpha(t), torch.where(s == 0, 1.0, self.schedule.alpha(s))
        alpha_t, alpha_s = self.schedule.alpha(torch.tensor([t, s], dtype=torch.float64)).tolist()
        return alpha_t, 1.0 if s == 0 else alpha_s

    def transition(self, t: Time, s: Time) -> Transition:
        """Return the reverse step from t to s."""
        return Transition.of(*self.alphas(t, s))

    def visible(self, canvas: Canvas, t: Time, s: Time) -> Tensor:
        """(B,) the share alpha_t of visible tokens, of which a conditioned network is told."""
        alpha_t = self.alphas(t, s)[0]
        if isinstance(alpha_t, Tensor):
            return alpha_t.squeeze(1).to(canvas.alpha)
        return torch.full_like(canvas.alpha, alpha_t)


def find_policy(name: str) -> type[Policy]:
    """Return a registered policy, or a user's, module:Class, where that is allowed."""
    kind = registry.lookup("sampler", name)
    if not (isinstance(kind, type) and issubclass(kind, Policy) and is_dataclass(kind)):
        found = registry.shown(kind)
        raise UserError(f"the sampler '{name}' must be a dataclass that is a Policy, found {found}")
    return kind


def make_policy(name: str, schedule: Schedule, options: Options | None = None) -> Policy:
    """Make the named policy, or raise UserError on an option that it does not have."""
    kind = find_policy(name)
    known = {f.name: f.default for f in fields(kind) if f.name != "schedule"}
    for key, value in (options or {}).items():
        if key not in known:
            has = ", ".join(f"{k} ({v})" for k, v in known.items()) or "no options"
            raise UserError(f"the sampler {name} has no option '{key}'; it has {has}")
        given, wanted = type(value), type(known[key])
        if given is not wanted and not (given is int and wanted is float):
            kind_of = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
            raise UserError(f"--policy.{key} must be {kind_of[wanted]}, found {value!r}")
    return kind(schedule, **(options or {}))


def clock(steps: int) -> Iterator[tuple[float, float]]:
    """(t, s) from 1 to 0.

    Example:
        >>> list(clock(2))
        [(1.0, 0.5), (0.5, 0.0)]
    """
    for i in range(steps, 0, -1):
        yield i / steps, (i - 1) / steps


def clocks(paces: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(t, s), (B, 1) each, of rows that take so many steps: (B,); who is done stays at its last.

    Example:
        >>> [(t.tolist(), s.tolist()) for t, s in clocks(torch.tensor([2, 1]))]
        [([[1.0], [1.0]], [[0.5], [0.0]]), ([[0.5], [1.0]], [[0.0], [0.0]])]
    """
    each = paces[:, None].double()
    for number in range(int(paces.max())):
        left = (each - number).clamp(min=1)
        yield left / each, (left - 1) / each


def run(canvas: Canvas, policy: Policy, steps: int, watch: Watch | None = None) -> None:
    """The one loop. `watch` may look or rewrite."""
    canvas.start()
    if watch:
        watch(0, canvas)
    for number, (t, s) in enumerate(policy.times(canvas, steps), 1):
        canvas.next_step()
        canvas.tell(policy.visible(canvas, t, s))
        policy.step(canvas, t, s)
        if watch:
            watch(number, canvas)
