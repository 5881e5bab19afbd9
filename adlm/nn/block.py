"""One pre-norm transformer block, with optional short convolution and optional time modulation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.nn.cache import BlockCache
from adlm.nn.config import TrunkConfig
from adlm.nn.conv import ShortConv
from adlm.nn.layout import Layout
from adlm.nn.rotary import rotate


class Attention(nn.Module):
    """Multi-head attention with rotary positions, computed by PyTorch's SDPA."""

    def __init__(self, cfg: TrunkConfig):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.out = nn.Linear(cfg.width, cfg.width, bias=False)
        self.dropout = cfg.dropout
        self.qk_norm = cfg.qk_norm

    def forward(
        self,
        x: Tensor,
        turn: tuple[Tensor, Tensor],
        mask: Tensor | None,
        causal: bool,
        cache: BlockCache | None,
    ) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, L, d)
        if self.qk_norm:
            q, k = F.rms_norm(q, q.shape[-1:]), F.rms_norm(k, k.shape[-1:])
        q, k = rotate(q, *turn), rotate(k, *turn)
        if cache is not None:
            k, v = cache.extend(k, v)
        y = self.mix(q, k, v, mask, causal)  # (B, H, L, d)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """SDPA in the compute dtype; on a CPU in fp32, whose backward is 3x as fast as bf16's."""
        dtype = v.dtype if v.is_cuda else torch.promote_types(v.dtype, torch.float32)
        drop = self.dropout if self.training else 0.0
        with torch.autocast(v.device.type, enabled=False):
            return F.scaled_dot_product_attention(
                q.to(dtype), k.to(dtype), v.to(dtype), mask, drop, is_causal=causal and mask is None
            )


class Block(nn.Module):
    """h + conv(h), then h + attention(norm(h)), then h + mlp(norm(h)).

    With time modulation (`cfg.time`, the published DiT) each branch's input is scaled and shifted
    and its output gated by the time embedding c: branch(norm(h) * (1 + a) + b) * g.
    """

    def __init__(self, cfg: TrunkConfig, causal: bool):
        super().__init__()
        self.conv = ShortConv(cfg.width, cfg.conv, causal) if cfg.conv else None
        self.norm1 = nn.LayerNorm(cfg.width, bias=False)
        self.attention = Attention(cfg)
        self.norm2 = nn.LayerNorm(cfg.width, bias=False)
        self.up = nn.Linear(cfg.width, cfg.mlp * cfg.width)
        self.down = nn.Linear(cfg.mlp * cfg.width, cfg.width)
        self.modulation = nn.Linear(cfg.time, 6 * cfg.width) if cfg.time else None
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self,
        h: Tensor,
        layout: Layout,
        turn: tuple[Tensor, Tensor],
        mask: Tensor | None,
        c: Tensor | None,
        cache: BlockCache | None,
    ) -> Tensor:
        if self.conv is not None:
            past = cache.slide(h, len(self.conv.weight)) if cache is not None else None
            h = self.conv(h, layout, past)
        causal = layout.causal and h.shape[1] > 1
        if self.modulation is None:
            h = h + self.dropout(self.attention(self.norm1(h), turn, mask, causal, cache))
            return h + self.dropout(self.mlp(self.norm2(h)))
        b1, a1, g1, b2, a2, g2 = self.modulation(c)[:, None, :].chunk(6, dim=-1)  # each (B, 1, D)
        x = self.norm1(h) * (1 + a1) + b1
        h = h + g1 * self.dropout(self.attention(x, turn, mask, causal, cache))
        return h + g2 * self.dropout(self.mlp(self.norm2(h) * (1 + a2) + b2))

    def mlp(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))
