"""Rotary position embedding: q and k are turned by an angle proportional to their position."""

from __future__ import annotations

import torch
from torch import Tensor


def angles(length: int, head_dim: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """cos and sin, each (length, head_dim / 2), in fp32."""
    frequency = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    phase = torch.arange(length, dtype=torch.float32)[:, None] * frequency  # (length, head_dim / 2)
    return phase.cos(), phase.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2}) of x: (..., d) by the angle of its position.

    cos and sin have d / 2 as their last size and broadcast over x.

    Example:
        >>> cos, sin = angles(3, 4)
        >>> x = torch.ones(1, 3, 4)
        >>> torch.allclose(rotate(x, cos, sin).norm(dim=-1), x.norm(dim=-1))
        True
    """
    a, b = x.chunk(2, dim=-1)  # each (..., d / 2)
    turned = torch.addcmul(a * cos, b, sin, value=-1), torch.addcmul(b * cos, a, sin)
    return torch.cat(turned, dim=-1)
