"""The small value objects that stages hand each other.

Shape legend: B rows of a batch, L positions of a row, V vocabulary size, D width of the trunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows of clean tokens."""

    x: Tensor  # (B, L) int64 token ids
    valid: Tensor  # (B, L) bool, False = padding: neither seen nor scored
    segment: Tensor | None = None  # (B, L) which positions see each other; None = all do

    def __getitem__(self, part: slice) -> Batch:
        segment = None if self.segment is None else self.segment[part]
        return Batch(self.x[part], self.valid[part], segment)

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: str) -> Batch:
        segment = None if self.segment is None else self.segment.to(device)
        return Batch(self.x.to(device), self.valid.to(device), segment)


@dataclass(frozen=True)
class Noise:
    """The randomness of one step, drawn for the global batch so that no split of it matters."""

    t: Tensor  # (B,) times in (0, 1]
    u: Tensor  # (B, L) uniform in [0, 1)
    shift: Tensor | None = None  # (B,) uniform in [0, 1): which positions a thinned loss takes
    token: Tensor | None = None  # (B, L) uniform in [0, 1): which real tokens noise is

    def __getitem__(self, part: slice) -> Noise:
        return self._each(lambda x: x[part])

    def to(self, device: str) -> Noise:
        return self._each(lambda x: x.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Noise:
        found = (getattr(self, f.name) for f in fields(self))
        return Noise(*(None if x is None else change(x) for x in found))


@dataclass(frozen=True)
class Noised:
    """Rows z_t of the forward process with what the objective needs to weigh them."""

    z: Tensor  # (B, L) tokens, hidden ones replaced by the mask
    masked: Tensor  # (B, L) bool
    weight: Tensor  # (B,) factor of the cross-entropy in the bound


@dataclass(frozen=True)
class View:
    """What the network is shown of a batch, and which of its predictions are scored."""

    z: Tensor  # (B, L) tokens it sees
    wanted: Tensor  # (B, L) bool: positions whose token is predicted
    weight: Tensor  # (B,) factor of a row's cross-entropy: the bound's, or training's own
    segment: Tensor | None = None  # (B, L)
    sigma: Tensor | None = None  # (B,) noise level


@dataclass(frozen=True)
class Score:
    """Negative log-likelihood, or its upper bound, in nats (in training, as weighted there)."""

    total: Tensor  # scalar with gradients: what is minimised, summed over the batch
    rows: Tensor  # (B,) without gradients: the same without the anchor loss, by row
    anchor: Tensor | None = None  # (B,) without gradients: the anchor loss, before gamma
