"""What a network is told about a pass besides its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from adlm.nn.cache import Cache
from adlm.nn.layout import Layout


@dataclass(frozen=True)
class Context:
    """Everything a forward pass depends on but the input itself.

    Example:
        >>> Context().layout is None  # the model's own: every position, or all before it
        True
    """

    layout: Layout | None = None  # which position sees which; None = the model's own
    sigma: Tensor | None = None  # noise level: (B,), or (B, L) one for each position
    cache: Cache | None = None  # what was seen before, in causal decoding
    wanted: Tensor | None = None  # (B, L) bool: positions whose states are returned, as (N, D)
    earlier: Tensor | None = None  # (B, L, D) States.bridged of an earlier pass: anchors do not run
