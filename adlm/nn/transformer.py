"""The one trunk: hidden states in, hidden states out. It knows nothing of tokens or objectives."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.device import wide
from adlm.nn.block import Block, each
from adlm.nn.cache import Cache
from adlm.nn.config import TrunkConfig
from adlm.nn.effort import Effort
from adlm.nn.layout import Layout
from adlm.nn.rotary import angles

TIME_FREQUENCIES = 256  # sinusoid features of the published time embedding


class TimeEmbedding(nn.Module):
    """sigma -> sinusoids -> two-layer MLP, as in DiT."""

    def __init__(self, size: int):
        super().__init__()
        self.inner = nn.Linear(TIME_FREQUENCIES, size)
        self.outer = nn.Linear(size, size)

    def forward(self, sigma: Tensor) -> Tensor:
        """sigma: (B,) or (B, L) -> (B, size) or (B, L, size)."""
        phase = sigma[..., None].float() * frequencies(sigma.device)
        waves = torch.cat((phase.cos(), phase.sin()), dim=-1)  # (..., 256)
        waves = waves.to(self.inner.weight.dtype)
        return F.silu(self.outer(F.silu(self.inner(waves))))


def frequencies(device: torch.device) -> Tensor:
    """Return 10^(-4 k / 128) for k < 128, fp32 as published, but the same on every machine.

    The last bit of an exponential in fp32 depends on the processor; one in fp64 is rounded here.
    """
    half = TIME_FREQUENCIES // 2
    steps = torch.arange(half, dtype=torch.float32, device=wide(device))
    return (-math.log(10_000) * steps / half).double().exp().float().to(device)


class Trunk(nn.Module):
    """A stack of pre-norm blocks and a final norm.

    Example:
        >>> trunk = Trunk(TrunkConfig(width=8, blocks=1, heads=2), causal=True)
        >>> trunk(torch.zeros(2, 5, 8), Layout(causal=True)).shape
        torch.Size([2, 5, 8])
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        cfg: TrunkConfig,
        causal: bool,
        max_length: int = 1024,
        depth: int | None = None,
        recall: bool = False,
    ):
        super().__init__()
        self.cfg = cfg
        self.causal = causal
        self.depth = cfg.blocks if depth is None else depth
        self.blocks = nn.ModuleList(Block(cfg, causal) for _ in range(self.depth))
        self.norm = nn.LayerNorm(cfg.width, bias=cfg.bias)
        learned = cfg.positions == "learned"
        self.positions = nn.Embedding(max_length, cfg.width) if learned else None
        self.modulation = nn.Linear(cfg.time, 2 * cfg.width) if cfg.time else None
        self.time = TimeEmbedding(cfg.time) if cfg.time else None
        cos, sin = angles(max_length, cfg.width // cfg.heads)
        self.effort = Effort()
        self.recall = nn.Linear(cfg.width, cfg.width, bias=False) if recall else None
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.reset()

    def reset(self) -> None:
        """Initialise so that every block starts as the identity."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                if name.endswith(("attention.out", "down", "modulation", "recall")):
                    nn.init.zeros_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=module.in_features**-0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if self.modulation is not None:  # gates of zero already make each block the identity
            for block in self.blocks:
                assert isinstance(block, Block)
                nn.init.normal_(block.attention.out.weight, std=self.cfg.width**-0.5)
                nn.init.normal_(block.down.weight, std=(self.cfg.mlp * self.cfg.width) ** -0.5)

    def forward(
        self,
        h: Tensor,
        layout: Layout,
        sigma: Tensor | None = None,
        cache: Cache | None = None,
        finish: bool = True,
        at: Tensor | None = None,
    ) -> Tensor:
        """h: (B, L, D) -> (B, L, D); sigma: noise level, (B,) or (B, L), with time modulation.

        Without `finish` the residual stream itself, before the final norm. With `at`, (N,) flat
        positions b L + l, only their states, (N, D): elsewhere the last block stops at attention.
        """
        if self.recall is not None and self.effort.passes > 1:
            with torch.no_grad():
                seen = self.passed(h, layout, sigma)
            h = h + self.recall(seen)
        return self.passed(h, layout, sigma, cache, finish, at)

    def passed(
        self,
        h: Tensor,
        layout: Layout,
        sigma: Tensor | None,
        cache: Cache | None = None,
        finish: bool = True,
        at: Tensor | None = None,
    ) -> Tensor:
        """Run the blocks once, as `forward` says."""
        start = cache.length if cache is not None else 0
        end = start + h.shape[1]
        turn = None
        if self.positions is None:
            self.reach(end)
            seen = layout.turns(start, end, h.device), None, None
            turn = (self.cos[seen], self.sin[seen])  # each (L, 1, 1, d / 2)
        else:
            h = h + self.positions(layout.places(start, end, h.device))
        kept = cache.kept if cache is not None else 0
        mask = layout.mask(h.shape[1], kept, h.device)
        c = self.condition(h, sigma)
        order = self.effort.order(self.depth)
        for i, number in enumerate(order):
            memory = cache.blocks[i] if cache is not None else None
            last = at if i == len(order) - 1 else None
            h = self.blocks[number](h, layout, turn, mask, c, memory, last)
        if cache is not None:
            cache.length = end
        if not finish:
            return h
        return self.finish(h, c, at, end - start)

    def reach(self, end: int) -> None:
        """Have rotary angles for positions up to `end`, beyond the trained length too."""
        if end > len(self.cos):
            cos, sin = angles(2 * end, self.cfg.width // self.cfg.heads)
            self.sin, self.cos = sin.to(self.sin), cos.to(self.cos)  # threads look at cos

    def condition(self, h: Tensor, sigma: Tensor | None) -> Tensor | None:
        """(B, time) or (B, L, time) embedding of the noise level."""
        if self.time is None:
            return None
        return self.time(sigma if sigma is not None else h.new_zeros(len(h)))

    def finish(
        self, h: Tensor, c: Tensor | None, at: Tensor | None = None, length: int = 0
    ) -> Tensor:
        """Return the final norm; at: (N,) flat positions of the states where h is (N, D)."""
        h = self.norm(h)
        if self.modulation is not None and c is not None:
            shift, scale = each(self.modulation(c), at, length).chunk(2, dim=-1)
            h = h * (1 + scale) + shift
        return h


def flat(wanted: Tensor | None) -> Tensor | None:
    """(B, L) bool -> (N,) numbers b L + l of the wanted positions."""
    return None if wanted is None else wanted.flatten().nonzero().squeeze(1)
