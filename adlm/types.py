"""The small value objects that stages hand each other.

Shape legend: B rows of a batch, L positions of a row, V vocabulary size, D width of the trunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from adlm.device import wide
from adlm.nn.context import Context


@dataclass(frozen=True)
class Batch:
    """Rows of clean tokens."""

    x: Tensor  # (B, L) int64 token ids
    valid: Tensor  # (B, L) bool, False = padding that is neither seen nor scored
    segment: Tensor | None = None  # (B, L) which positions see each other; None = all do
    given: Tensor | None = None  # (B, L) bool: a prompt, seen but neither hidden nor scored
    filler: Tensor | None = None  # (B, L) bool: padding that is hidden and seen, but not scored

    @property
    def free(self) -> Tensor:
        """(B, L) bool: the tokens that noise may take."""
        return self.valid if self.given is None else self.valid & ~self.given

    @property
    def scored(self) -> Tensor:
        """(B, L) bool: the tokens that are hidden and scored."""
        return self.free if self.filler is None else self.free & ~self.filler

    def __getitem__(self, part: slice) -> Batch:
        return self._each(lambda x: x[part])

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: str) -> Batch:
        return self._each(lambda x: x.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        made: dict[str, Any] = {k: change(x) for k, x in found.items() if x is not None}
        return Batch(**made)


@dataclass(frozen=True)
class Noise:
    """The randomness of one step, drawn for the global batch so that no split of it matters."""

    t: Tensor  # (B,) times in (0, 1], or (B, blocks)
    u: Tensor  # (B, L) uniform in [0, 1)
    shift: Tensor | None = None  # (B,) uniform in [0, 1): which positions a thinned loss takes
    stale: Tensor | None = None  # (B,) uniform in [0, 1): how much later the anchors' time is
    token: Tensor | None = None  # (B, L) uniform in [0, 1): which real tokens noise is
    turned: Tensor | None = None  # (B,) bool: rows whose mask is another's complement
    soft: Tensor | None = None  # (B, L, K) uniform in [0, 1): of noise that is softened

    def __getitem__(self, part: slice) -> Noise:
        return self._each(lambda x: x[part])

    def to(self, device: str) -> Noise:
        return self._each(lambda x: x.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Noise:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        made: dict[str, Any] = {k: change(x) for k, x in found.items() if x is not None}
        return Noise(**made)


@dataclass(frozen=True)
class Noised:
    """Rows z_t of the forward process with what the objective needs to weigh them."""

    z: Tensor  # (B, L) tokens, hidden ones replaced by the mask
    masked: Tensor  # (B, L) bool
    weight: Tensor  # (B,) factor of the cross-entropy in the bound


@dataclass(frozen=True)
class View:
    """What the network is shown of a batch, and which of its predictions are scored.

    P is the number of positions shown: L, or more where an objective shows a row twice.
    """

    z: Tensor  # (B, P) tokens it sees
    x: Tensor  # (B, P) tokens to be predicted
    wanted: Tensor  # (B, P) bool: positions whose token is predicted
    weight: Tensor  # (B,) or (B, P) factor of the cross-entropy: the bound's, or training's own
    t: Tensor | None = None  # (B,) or (B, P) times, where there are any
    context: Context = field(default_factory=Context)  # layout and noise level of the pass

    @property
    def scale(self) -> Tensor:
        """(N,) the weight of each wanted prediction."""
        row = self.wanted.nonzero()[:, 0]
        return self.weight[row] if self.weight.ndim == 1 else self.weight[self.wanted]

    def by_row(self, nats: Tensor) -> Tensor:
        """(N,) unweighted nats of the wanted predictions -> (B,) weighted sums, in fp64."""
        place = wide(nats.device)
        row = self.wanted.nonzero()[:, 0].to(place)
        rows = torch.zeros(len(self.z), dtype=torch.float64, device=place)  # order is no matter
        return rows.index_add_(0, row, (nats * self.scale).to(place).double())


@dataclass(frozen=True)
class Score:
    """Negative log-likelihood, or its upper bound, in nats (in training, as weighted there).

    The anchor loss stands apart, before gamma: what is minimised is bound + gamma * anchor.
    """

    bound: Tensor  # scalar with gradients, summed over the batch
    rows: Tensor  # (B,) the same by row, without gradients
    anchor: Tensor | None = None  # scalar with gradients, where it was asked for
    anchor_rows: Tensor | None = None  # (B,) without gradients
