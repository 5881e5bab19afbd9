"""A short depthwise convolution over positions, zero-initialised: the block starts as the identity.

    out^l = x^l + sum_j w_j * x^{l - j}

A small diffusion model first sits on a plateau of mere word frequencies, because attention has to
discover "my neighbour" by itself. This hands it the neighbours and shortens that plateau.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adlm.nn.layout import Layout


class ShortConv(nn.Module):
    """Residual depthwise convolution of odd `taps`; looks back only when the layout is causal."""

    def __init__(self, width: int, taps: int, causal: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(taps, width))
        first = 0 if causal else -(taps // 2)
        self.offsets = range(first, first + taps)  # position l reads l - offset

    def forward(self, x: Tensor, layout: Layout, past: Tensor | None = None) -> Tensor:
        """x: (B, L, D); past: (B, taps - 1, D) inputs before x, when decoding causally."""
        found = zip(self.weight, layout.neighbours(x, self.offsets, past), strict=True)
        weight, tap = next(found)
        out = x + weight * tap
        for weight, tap in found:
            out = out + weight * tap if torch.is_grad_enabled() else out.addcmul_(weight, tap)
        return out
