"""Canvas and loop. A policy decides which positions change; the network is asked only for those.

Positions come before tokens: the vocabulary head and the fp64 draw run on just the positions that
get a token, and a row whose canvas has not changed since its last pass is not passed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from adlm import device as devices
from adlm.models.denoiser import Denoiser
from adlm.samplers.categorical import Draw
from adlm.samplers.random import RowRandom


@dataclass
class Canvas:
    """Rows being written. Frozen positions are never touched."""

    z: Tensor  # (B, L) tokens, the mask where nothing is written yet
    frozen: Tensor  # (B, L) bool
    mask: int
    model: Denoiser
    draw: Draw
    random: RowRandom
    precision: str = "fp32"
    chance: Tensor = field(init=False)  # (B, L) uniform numbers of this step, for positions
    _chance: Tensor = field(init=False)  # (B, L) uniform numbers of this step, for tokens
    nfe: Tensor = field(init=False)  # (B,) network passes of each row
    probability: Tensor = field(init=False)  # (B, L) of a token when it was written
    _hidden: Tensor | None = field(init=False, default=None)  # (B, L, D) of the last pass
    _stale: Tensor = field(init=False)  # (B,) has the row changed since?

    def __post_init__(self) -> None:
        self.nfe = torch.zeros(len(self.z), dtype=torch.long)
        self.probability = torch.ones(self.z.shape, dtype=torch.float64)
        self._stale = torch.ones(len(self.z), dtype=torch.bool)

    def next_step(self) -> None:
        """Draw a step's randomness: as much for every row, whatever happens in it."""
        length = self.z.shape[1]
        self.chance, self._chance = (
            self.random.uniform(2 * length).to(self.z.device).split(length, 1)
        )

    @property
    def open(self) -> Tensor:
        """(B, L) positions that wait for a token."""
        return (self.z == self.mask) & ~self.frozen

    def logits(self, positions: Tensor) -> Tensor:
        """(N, V) logits at the given positions: (B, L) bool, row by row."""
        wanted = positions.any(dim=1).cpu() & self._stale
        device = str(self.z.device)
        with torch.no_grad(), devices.autocast(self.precision, device):
            if wanted.any():
                rows = wanted.nonzero()[:, 0].to(self.z.device)
                h = self.model.hidden(self.z[rows]).float()  # (R, L, D)
                if self._hidden is None:
                    self._hidden = h.new_zeros(*self.z.shape, h.shape[-1])
                self._hidden[rows] = h
                self.nfe += wanted
                self._stale &= ~wanted
            assert self._hidden is not None
            return self.model.head(self._hidden[positions])

    def propose(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """A drawn token and its probability for each of the positions: (N,) each."""
        return self.draw(self.logits(positions), self._chance[positions], self.mask)

    def write(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put tokens at positions: (B, L) bool."""
        if not positions.any():
            return
        assert not (positions & self.frozen).any()
        self.z = self.z.masked_scatter(positions, tokens)
        self.probability[positions.cpu()] = probability.cpu()
        self._stale |= positions.any(dim=1).cpu()


class Policy(Protocol):
    """Which positions change from time t to s."""

    def step(self, canvas: Canvas, t: float, s: float) -> None: ...


def clock(steps: int) -> Iterator[tuple[float, float]]:
    """(t, s) from 1 to 0."""
    for i in range(steps, 0, -1):
        yield i / steps, (i - 1) / steps


def run(
    canvas: Canvas, policy: Policy, steps: int, watch: Callable[[int, Canvas], None] | None = None
) -> None:
    """The one loop. `watch` is called after each step and may look or rewrite."""
    for number, (t, s) in enumerate(clock(steps), 1):
        canvas.next_step()
        policy.step(canvas, t, s)
        if watch:
            watch(number, canvas)
