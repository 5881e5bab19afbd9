"""One pre-norm transformer block, with optional short convolution and optional time modulation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from adlm.nn.cache import BlockCache
from adlm.nn.config import TrunkConfig
from adlm.nn.conv import ShortConv
from adlm.nn.layout import Layout
from adlm.nn.linear_ce import product_dtype
from adlm.nn.rotary import rotate


class Attention(nn.Module):
    """Multi-head attention with rotary positions, computed by PyTorch's SDPA."""

    def __init__(self, cfg: TrunkConfig):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width, bias=cfg.bias)
        self.out = nn.Linear(cfg.width, cfg.width, bias=cfg.bias)
        self.dropout = cfg.attention_dropout
        self.qk_norm = cfg.qk_norm

    def forward(
        self,
        qkv: Tensor,
        turn: tuple[Tensor, Tensor] | None,
        mask: Tensor | None,
        causal: bool,
        cache: BlockCache | None,
        at: Tensor | None = None,
    ) -> Tensor:
        """qkv: (B, L, 3 D), which the block makes with `self.qkv` -> (B, L, D), or (N, D) `at`."""
        batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
        heads = qkv.view(batch, length, 3, self.heads, width // self.heads)
        qk, v = heads.split((2, 1), dim=2)  # (B, L, 2, H, d), (B, L, 1, H, d)
        if self.qk_norm:
            qk = F.rms_norm(qk, qk.shape[-1:])
        if turn is not None:
            qk = rotate(qk, *turn)
        q, k = qk.transpose(1, 3).unbind(2)  # each (B, H, L, d)
        v = v.squeeze(2).contiguous().transpose(1, 2)  # a view would keep all of qkv for backward
        if cache is not None:
            k, v = cache.extend(k, v)
        y = self.mix(q, k, v, mask, causal)  # (B, H, L, d)
        return self.out(pick(y.transpose(1, 2).reshape(batch, length, width), at))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """SDPA in the compute dtype; on a CPU in fp32, whose backward is 3x as fast as bf16's."""
        dtype = v.dtype if v.is_cuda else torch.promote_types(v.dtype, torch.float32)
        drop = self.dropout if self.training else 0.0
        with torch.autocast(v.device.type, enabled=False):
            return F.scaled_dot_product_attention(
                q.to(dtype), k.to(dtype), v.to(dtype), mask, drop, is_causal=causal and mask is None
            )


def pick(h: Tensor, at: Tensor | None) -> Tensor:
    """Of (B, L, D) the flat positions `at`: (N,) -> (N, D); without them all of it."""
    return h if at is None else h.flatten(0, 1).index_select(0, at)


def each(change: Tensor, at: Tensor | None = None, length: int = 0) -> Tensor:
    """Spread a modulation of rows, (B, X), or of positions, (B, L, X), over the states it changes.

    Returns (B, 1, X) or (B, L, X); with `at`, (N,) flat positions b L + l, (N, X).
    """
    if change.ndim == 3:
        return pick(change, at)
    return change[:, None] if at is None else change[at // length]


class Block(nn.Module):
    """h + conv(h), then h + attention(norm(h)), then h + mlp(norm(h)).

    With time modulation (`cfg.time`, the published DiT) each branch's input is scaled and shifted
    and its output gated by the time embedding c: branch(norm(h) * (1 + a) + b) * g.
    """

    again = False  # compute the pass again for the backward pass, instead of keeping what it made

    def __init__(self, cfg: TrunkConfig, causal: bool):
        super().__init__()
        self.conv = ShortConv(cfg.width, cfg.conv, causal) if cfg.conv else None
        self.norm1 = nn.LayerNorm(cfg.width, bias=cfg.bias)
        self.attention = Attention(cfg)
        self.norm2 = nn.LayerNorm(cfg.width, bias=cfg.bias)
        self.up = nn.Linear(cfg.width, cfg.mlp * cfg.width)
        self.down = nn.Linear(cfg.mlp * cfg.width, cfg.width)
        self.modulation = nn.Linear(cfg.time, 6 * cfg.width) if cfg.time else None
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self,
        h: Tensor,
        layout: Layout,
        turn: tuple[Tensor, Tensor] | None,
        mask: Tensor | None,
        c: Tensor | None,
        cache: BlockCache | None,
        at: Tensor | None = None,
    ) -> Tensor:
        """h: (B, L, D) -> (B, L, D); with `at`, (N,) flat positions, only those: (N, D)."""
        given = (h, layout, turn, mask, c, cache, at)
        if self.again and torch.is_grad_enabled():
            return checkpoint(self.passed, *given, use_reentrant=False)
        return self.passed(*given)

    def passed(
        self,
        h: Tensor,
        layout: Layout,
        turn: tuple[Tensor, Tensor] | None,
        mask: Tensor | None,
        c: Tensor | None,
        cache: BlockCache | None,
        at: Tensor | None,
    ) -> Tensor:
        """The pass itself."""
        if self.conv is not None:
            past = cache.slide(h, len(self.conv.weight)) if cache is not None else None
            h = self.conv(h, layout, past)
        causal = layout.causal and h.shape[1] > 1
        if self.modulation is None:
            qkv = norm_linear(h, self.norm1, self.attention.qkv)  # (B, L, 3 D)
            h = pick(h, at) + self.dropout(self.attention(qkv, turn, mask, causal, cache, at))
            inner = norm_linear(h, self.norm2, self.up)  # (B, L, mlp D)
            return h + self.dropout(gelu_linear(inner, self.down))
        change = self.modulation(c)  # (B, 6 D) or (B, L, 6 D)
        b1, a1, *_ = each(change).chunk(6, dim=-1)  # each (B, 1, D) or (B, L, D)
        _, _, g1, b2, a2, g2 = each(change, at, h.shape[1]).chunk(6, dim=-1)  # or (N, D)
        qkv = self.attention.qkv(normed(h, self.norm1) * (1 + a1) + b1)
        h = pick(h, at) + g1 * self.dropout(self.attention(qkv, turn, mask, causal, cache, at))
        inner = self.up(normed(h, self.norm2) * (1 + a2) + b2)  # (B, L, mlp D)
        return h + g2 * self.dropout(gelu_linear(inner, self.down))


def normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x), also where its weights are narrower than x: a sharded block is gathered in bf16."""
    weight, bias = norm.weight, norm.bias
    if torch.promote_types(x.dtype, weight.dtype) == weight.dtype:
        return norm(x)
    wide = None if bias is None else bias.to(x.dtype)
    return F.layer_norm(x, norm.normalized_shape, weight.to(x.dtype), wide, norm.eps)


def norm_linear(x: Tensor, norm: nn.LayerNorm, linear: nn.Linear) -> Tensor:
    """linear(norm(x)), where training keeps x alone: the norm is made again in the backward pass.

    Example:
        >>> norm, linear = nn.LayerNorm(4, bias=False), nn.Linear(4, 3)
        >>> x = torch.randn(2, 5, 4)
        >>> torch.allclose(norm_linear(x, norm, linear), linear(norm(x)))
        True
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():  # a compiler does it itself
        return linear(normed(x, norm))
    if norm.bias is not None:  # only foreign networks have one
        return linear(normed(x, norm))
    dtype = product_dtype(x, linear.weight)
    return _NormLinear.apply(x, norm.weight, norm.eps, linear.weight, linear.bias, dtype)


def gelu_linear(x: Tensor, linear: nn.Linear) -> Tensor:
    """linear(gelu(x)), where training keeps x alone: gelu is made again in the backward pass."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return linear(F.gelu(x, approximate="tanh"))
    return _GeluLinear.apply(x, linear.weight, linear.bias, product_dtype(x, linear.weight))


class _NormLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor,
        eps: float,
        weight: Tensor,
        bias: Tensor | None,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.save_for_backward(x, scale, weight)
        ctx.eps, ctx.dtype = eps, dtype
        wide = torch.promote_types(x.dtype, scale.dtype)
        with torch.autocast(x.device.type, enabled=False):
            a = F.layer_norm(x.to(wide), scale.shape, scale.to(wide), None, eps)
            return _linear(a, weight, bias, dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, weight = ctx.saved_tensors
        shape, dtype = list(scale.shape), torch.promote_types(x.dtype, scale.dtype)
        with torch.autocast(x.device.type, enabled=False):
            wide, scale = x.to(dtype), scale.to(dtype)
            a, mean, rstd = torch.native_layer_norm(wide, shape, scale, None, ctx.eps)
            da, dw, db = _linear_gradients(dy, a, weight, ctx.dtype, ctx.needs_input_grad[4])
            del a
            dx, dscale, _ = torch.ops.aten.native_layer_norm_backward(
                da.to(dtype), wide, shape, mean, rstd, scale, None, [True, True, False]
            )
        return dx, dscale, None, dw, db, None


class _GeluLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.dtype = dtype
        with torch.autocast(x.device.type, enabled=False):
            return _linear(F.gelu(x, approximate="tanh"), weight, bias, dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            a = F.gelu(x, approximate="tanh")
            da, dw, db = _linear_gradients(dy, a, weight, ctx.dtype, ctx.needs_input_grad[2])
            del a
            dx = torch.ops.aten.gelu_backward(da.to(x.dtype), x, approximate="tanh")
        return dx, dw, db, None


def _linear(a: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """a @ weight.T + bias in one dtype."""
    return F.linear(a.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def _linear_gradients(
    dy: Tensor, a: Tensor, weight: Tensor, dtype: torch.dtype, biased: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of a @ weight.T + bias by a, weight and bias."""
    flat = dy.to(dtype).flatten(0, -2)  # (N, out)
    dw = flat.T @ a.to(dtype).flatten(0, -2)  # (out, in)
    return (flat @ weight.to(dtype)).view(a.shape), dw, flat.sum(dim=0) if biased else None
