"""What a network is told about a pass besides its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
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

    def preceded(self) -> Context:
        """The same with one more position before each row, of which no state is wanted.

        Token l is then predicted at position l of L + 1, which holds the token before it.
        """
        layout, sigma = self.layout, self.sigma
        if layout is not None and layout.segment is not None:
            segment = torch.cat((layout.segment[:, :1], layout.segment), dim=1)
            layout = replace(layout, segment=segment)
        if sigma is not None and sigma.ndim == 2:
            sigma = torch.cat((sigma[:, :1], sigma), dim=1)
        wanted = None if self.wanted is None else F.pad(self.wanted, (0, 1))
        return replace(self, layout=layout, sigma=sigma, wanted=wanted)
