"""When a run goes wrong: steps without a finite loss, and a loss that runs away."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path

from adlm.config import OptimConfig

WINDOW = 20  # steps whose mean loss is looked at
FAR = 10.0  # times what guessing costs, beyond which nothing is learnt any more


class LossGuard:
    """Looks at the loss of each step.

    Guessing costs log V nats a token. A mean over the last steps of ten times as much, or over all
    of a shorter run at its end, is no bad luck: the run has diverged.

    Example:
        >>> guard = LossGuard(vocab_size=256, skip=1)
        >>> guard.see(5.5)
        >>> guard.see(1e6)
        >>> guard.diverged(at_end=False), guard.diverged(at_end=True)
        (False, True)
        >>> guard.may_skip(), guard.may_skip()
        (True, False)
    """

    def __init__(self, vocab_size: int, skip: int):
        self.guess, self.skip = math.log(vocab_size), skip
        self.skipped = 0  # in a row
        self.losses: deque[float] = deque(maxlen=WINDOW)

    def see(self, loss: float) -> None:
        """Take note of a step's loss, in nats a prediction."""
        self.skipped = 0
        self.losses.append(loss)

    def may_skip(self) -> bool:
        """Tell whether one more step without a finite loss may be left out."""
        self.skipped += 1
        return self.skipped <= self.skip

    @property
    def mean(self) -> float:
        """The mean loss of the last steps; 0 where there are none."""
        return sum(self.losses) / max(1, len(self.losses))

    @property
    def far(self) -> bool:
        """Whether the loss is so high that no good checkpoint should give way to a new one."""
        return self.mean > FAR * self.guess

    def diverged(self, at_end: bool) -> bool:
        """Tell whether the loss has run away."""
        return self.far and (at_end or len(self.losses) == WINDOW)

    def told(self, step: int) -> str:
        """Say that it has."""
        return (
            f"the run has diverged: the loss of the last {len(self.losses)} steps before step "
            f"{step} is {self.mean:.3g} nats a token, and guessing costs {self.guess:.3g}"
        )


def advice(run: Path, optim: OptimConfig) -> str:
    """Return what to try next, in words that can be typed."""
    name, rate = ("muon_lr", optim.muon_lr) if optim.name == "muon" else ("lr", optim.lr)
    return (
        f"Checkpoints so far are kept: adlm train --resume {run} --optim.{name} {rate / 3:.2g} "
        "goes on from the newest with a lower rate, an earlier one of the run's checkpoints named "
        "instead goes back further; optim.lr, optim.warmup, optim.clip and train.precision fp32 "
        "may help too"
    )
