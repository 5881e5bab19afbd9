"""Rotary position embedding: q and k are turned by an angle proportional to their position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 20  # turned at a time


def angles(length: int, head_dim: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """cos and sin, each (length, head_dim / 2), in fp32."""
    frequency = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    phase = torch.arange(length, dtype=torch.float32)[:, None] * frequency  # (length, head_dim / 2)
    return phase.cos(), phase.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2}) of x: (B, ..., d) by the angle of its position.

    cos and sin have d / 2 as their last size and broadcast over the rows of x, or have angles for
    each of them. The gradient is turned back by the same angle, so that nothing is kept for it.

    Example:
        >>> cos, sin = angles(3, 4)
        >>> x = torch.ones(1, 3, 4)
        >>> torch.allclose(rotate(x, cos, sin).norm(dim=-1), x.norm(dim=-1))
        True
    """
    if torch.compiler.is_compiling():  # a compiler fuses the plain formula
        a, b = x.chunk(2, dim=-1)  # each (B, ..., d / 2)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return _Rotate.apply(x, cos, sin)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.dtype = x.dtype
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(dy, cos, -sin).to(ctx.dtype), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """A few rows at a time, which stay in the processor's cache (a GPU takes all at once)."""
    out = torch.empty(x.shape, dtype=torch.promote_types(x.dtype, cos.dtype), device=x.device)
    rows = len(x) if x.is_cuda else max(1, CHUNK_ELEMENTS * len(x) // max(1, x.numel()))
    if cos.ndim == x.ndim and rows < len(x):  # every row has angles of its own
        for low in range(0, len(x), rows):
            some = slice(low, low + rows)
            out[some] = _turn(x[some], cos[some], sin[some])
        return out
    for part, turned in zip(x.split(rows), out.split(rows), strict=True):
        a, b = part.to(out.dtype).chunk(2, dim=-1)  # each (rows, ..., d / 2)
        first, second = turned.chunk(2, dim=-1)
        torch.mul(a, cos, out=first).addcmul_(b, sin, value=-1)
        torch.mul(b, cos, out=second).addcmul_(a, sin)
    return out
