"""An adlm model for plain transformers: the network written out, with PyTorch alone.

A masked diffusion model (AutoModelForMaskedLM) predicts the token behind every mask; a causal one
(AutoModelForCausalLM) the token after each position. `sigma` is the noise level, where a model is
conditioned on it. Logits are those of adlm: that of the mask itself is among them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput, MaskedLMOutput

from .configuration_adlm import AdlmConfig

DEFAULTS = {
    "mlp": 4,
    "conv": 0,
    "time": 0,
    "qk_norm": False,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "bias": False,
    "positions": "rotary",
    "tied": False,
    "anchor_blocks": 0,
    "bridge": "linear",
    "residual": False,
    "shared": False,
    "shift": False,
}
FREQUENCIES = 256  # features of the time embedding


class Conv(nn.Module):
    """x^l + sum_j w_j x^{l-j}, a depthwise convolution over neighbours of one kind."""

    def __init__(self, width: int, taps: int, causal: bool, block: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(taps, width))
        self.first = 0 if causal else -(taps // 2)
        self.block = block

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """x: (B, L, D), real: (B, L) bool, False for padding, or None."""
        out, length = x, x.shape[1]
        for offset, weight in enumerate(self.weight, self.first):
            left, right = max(offset, 0), max(-offset, 0)
            tap = F.pad(x, (0, 0, left, right))[:, right : right + length]  # x^{l - offset}
            if self.block:  # nothing of a later block
                place = torch.arange(length, device=x.device)
                tap = tap * ((place - offset) // self.block <= place // self.block)[:, None]
            if real is not None:
                tap = tap * (torch.roll(real, offset, 1) == real)[..., None]
            out = out + weight * tap
        return out


class Attention(nn.Module):
    """Multi-head attention with rotary positions."""

    def __init__(self, m: Any):
        super().__init__()
        self.m = m
        self.qkv = nn.Linear(m.width, 3 * m.width, bias=m.bias)
        self.out = nn.Linear(m.width, m.width, bias=m.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (B, L, D), mask: bool, what sees what, broadcast to (B, H, L, L)."""
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.m.heads, width // self.m.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each (B, H, L, d)
        if self.m.qk_norm:
            q, k = F.rms_norm(q, q.shape[-1:]), F.rms_norm(k, k.shape[-1:])
        if self.m.positions == "rotary":
            q, k = rotate(q), rotate(k)
        drop = self.m.attention_dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, mask, drop)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


def rotate(x: Tensor) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2}) of x: (B, H, L, d) by the angle of its position."""
    length, size = x.shape[-2:]
    frequency = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    phase = torch.arange(length, dtype=torch.float32)[:, None] * frequency  # (L, d / 2)
    cos, sin = phase.cos().to(x), phase.sin().to(x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    """Convolution, attention and MLP, each added to the stream; c modulates and gates them."""

    def __init__(self, m: Any, causal: bool, block: int):
        super().__init__()
        self.conv = Conv(m.width, m.conv, causal, block) if m.conv else None
        self.norm1 = nn.LayerNorm(m.width, bias=m.bias)
        self.attention = Attention(m)
        self.norm2 = nn.LayerNorm(m.width, bias=m.bias)
        self.up = nn.Linear(m.width, m.mlp * m.width)
        self.down = nn.Linear(m.mlp * m.width, m.width)
        self.modulation = nn.Linear(m.time, 6 * m.width) if m.time else None
        self.dropout = nn.Dropout(m.dropout)

    def forward(self, h: Tensor, mask: Tensor, real: Tensor | None, c: Tensor | None) -> Tensor:
        """h: (B, L, D) -> (B, L, D)."""
        b1, a1, g1, b2, a2, g2 = (h.new_tensor(n) for n in (0, 0, 1, 0, 0, 1))
        if self.modulation is not None:
            b1, a1, g1, b2, a2, g2 = self.modulation(c)[:, None].chunk(6, dim=-1)
        if self.conv is not None:
            h = self.conv(h, real)
        h = h + g1 * self.dropout(self.attention(self.norm1(h) * (1 + a1) + b1, mask))
        inner = F.gelu(self.up(self.norm2(h) * (1 + a2) + b2), approximate="tanh")
        return h + g2 * self.dropout(self.down(inner))


class Time(nn.Module):
    """sigma: (B,) -> sinusoids -> two-layer MLP -> (B, size)."""

    def __init__(self, size: int):
        super().__init__()
        self.inner = nn.Linear(FREQUENCIES, size)
        self.outer = nn.Linear(size, size)

    def forward(self, sigma: Tensor) -> Tensor:
        half = FREQUENCIES // 2
        steps = torch.arange(half, dtype=torch.float32)
        rates = (-math.log(10_000) * steps / half).double().exp().float()
        phase = sigma[:, None].float() * rates.to(sigma.device)
        waves = torch.cat((phase.cos(), phase.sin()), dim=-1).to(self.inner.weight.dtype)
        return F.silu(self.outer(F.silu(self.inner(waves))))


class Trunk(nn.Module):
    """A stack of blocks and a final norm."""

    def __init__(self, m: Any, config: AdlmConfig, depth: int):
        super().__init__()
        causal, length = config.causal, config.max_position_embeddings + m.shift
        self.step = 1 if causal else config.block or length  # tokens that come in turn
        self.blocks = nn.ModuleList(Block(m, causal, config.block) for _ in range(depth))
        self.norm = nn.LayerNorm(m.width, bias=m.bias)
        learned = m.positions == "learned"
        self.positions = nn.Embedding(length, m.width) if learned else None
        self.modulation = nn.Linear(m.time, 2 * m.width) if m.time else None
        self.time = Time(m.time) if m.time else None

    def forward(
        self, h: Tensor, real: Tensor | None, sigma: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """h: (B, L, D) -> the stream, and the same after the final norm."""
        length = h.shape[1]
        place = torch.arange(length, device=h.device)
        mask = place[:, None] // self.step >= place // self.step  # (L, L)
        if real is not None:
            mask = mask & (real[:, None, :, None] == real[:, None, None, :])
            place = (real.cumsum(dim=1) - 1).clamp(min=0)
        if self.positions is not None:
            h = h + self.positions(place)
        c = None
        if self.time is not None:
            c = self.time(h.new_zeros(len(h)) if sigma is None else sigma)
        for block in self.blocks:
            h = block(h, mask, real, c)
        out = self.norm(h)
        if self.modulation is not None:
            shift, scale = self.modulation(c)[:, None].chunk(2, dim=-1)
            out = out * (1 + scale) + shift
        return h, out


class Bridge(nn.Module):
    """From the anchor network's states to the denoiser's input."""

    def __init__(self, m: Any, vocab_size: int):
        super().__init__()
        self.kind = m.bridge
        if m.bridge != "embedding":
            self.project = nn.Linear(m.width if m.bridge == "hidden" else vocab_size, m.width)

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        if self.kind == "hidden":
            return self.project(h)
        if self.kind == "linear":
            return self.project(head(h))
        anchors = head(h).softmax(dim=-1)
        return anchors @ embed.weight if self.kind == "embedding" else self.project(anchors)


class AdlmPreTrainedModel(PreTrainedModel):
    """Embedding, anchor network (where there is one), denoiser and vocabulary head."""

    config_class = AdlmConfig
    _keys_to_ignore_on_load_unexpected = [r"table_\w+"]  # noqa: RUF012 (counts)

    def __init__(self, config: AdlmConfig):
        super().__init__(config)
        m = SimpleNamespace(**{**DEFAULTS, **config.adlm["model"]})
        size = config.vocab_size
        self.embed = nn.Embedding(size, m.width)
        self.trunk = Trunk(m, config, m.blocks)
        self.head = nn.Linear(m.width, size)
        self.start = nn.Parameter(torch.zeros(m.width)) if m.shift else None
        self.residual, self.anchored = m.residual, m.anchor_blocks > 0
        if self.anchored:
            self.anchor_trunk = Trunk(m, config, m.anchor_blocks)
            self.anchor_head = nn.Linear(m.width, size)
            self.bridge = Bridge(m, size)
        tied = {"head.weight": m.tied, "anchor_head.weight": m.shared and self.anchored}
        self._tied_weights_keys = {name: "embed.weight" for name, on in tied.items() if on}
        config.tie_word_embeddings = bool(self._tied_weights_keys)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def logits(
        self, input_ids: Tensor, attention_mask: Tensor | None, sigma: Tensor | None
    ) -> Tensor:
        """(B, L) tokens -> (B, L, V)."""
        real = None if attention_mask is None else attention_mask.bool()
        h = self.embed(input_ids)
        if self.start is not None:  # position l - 1 predicts token l
            h = torch.cat((self.start.expand(len(h), 1, -1), h), dim=1)
            real = None if real is None else torch.cat((real[:, :1], real), dim=1)
        if self.anchored:
            stream, anchor = self.anchor_trunk(h, real, sigma)
            h = self.bridge(anchor, self.anchor_head, self.embed)
            h = h + stream if self.residual else h
        out = self.trunk(h, real, sigma)[1]
        return self.head(out if self.start is None else out[:, :-1])


class AdlmForMaskedLM(AdlmPreTrainedModel):
    """A masked diffusion model: predicts what is behind the masks."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        sigma: Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """labels: (B, L), -100 where nothing is scored."""
        logits: Any = self.logits(input_ids, attention_mask, sigma)
        loss: Any = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


class AdlmForCausalLM(AdlmPreTrainedModel, GenerationMixin):
    """An autoregressive model: predicts the next token."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutput:
        """labels: (B, L) the tokens themselves, -100 where nothing is scored."""
        logits: Any = self.logits(input_ids, attention_mask, None)
        loss: Any = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, *args: Any, attention_mask: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """All tokens so far: there is no cache."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}
