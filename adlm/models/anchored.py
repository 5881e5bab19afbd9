"""Anchor network in front of a denoiser: the one wrapper that makes MDLM into ADLM, AR into A2R.

    z -> embed -> anchor trunk -> h_a -> bridge -> denoiser trunk -> h -> head
                                   |
                                   anchor head: y_phi = softmax(W_o h_a + b)

In the paper the anchor *logits* enter the denoiser through Linear(V -> D) with nothing between, so
the pair is one D x D map,

    P (W_o h_a + b) + p  =  (P W_o) h_a + (P b + p),

which is what is computed: no (B, L, V) array exists on the denoiser's path. `LiteralBridge` is the
same written out, for the tests.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.config import ModelConfig
from adlm.models.denoiser import Denoiser, States
from adlm.nn.context import Context
from adlm.nn.transformer import Trunk, flat


class LiteralBridge(nn.Module):
    """The paper's, as written there: raw anchor logits, (B, L, V), through Linear(V -> D)."""

    def __init__(self, head: nn.Linear, width: int):
        super().__init__()
        self.project = nn.Linear(head.out_features, width)
        nn.init.normal_(self.project.weight, std=head.out_features**-0.5)
        nn.init.zeros_(self.project.bias)

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        return self.project(head(h))


class LinearBridge(LiteralBridge):
    """The same folded into one D x D map."""

    def __init__(self, head: nn.Linear, width: int):
        super().__init__(head, width)
        self._kept: tuple[Tensor, Tensor, Tensor] | None = None  # of what weights, and the fold

    def folded(self, head: nn.Linear) -> tuple[Tensor, Tensor]:
        """(P W_o: (D, D), P b + p: (D,)), once per change of the weights when not training."""
        if torch.is_grad_enabled():  # training: the weights change with every step
            self._kept = None
            return self._fold(head)
        with torch.autocast(head.weight.device.type, enabled=False):
            now = self._fingerprint(head)
            if self._kept is None or not _same(self._kept[0], now):
                self._kept = (now, *self._fold(head))
        return self._kept[1], self._kept[2]

    def _fingerprint(self, head: nn.Linear) -> Tensor:
        """(3 V + D,) W_o r, P^T r for a fixed r, and both biases: it changes when a weight does.

        Version counters miss what is written through `.data` or by a fused optimiser. Reading
        the weights once costs a seventieth of a fold at D 768, V 50258 (19 of 1320 ms, one core).
        """
        weight = head.weight
        r = torch.arange(1, weight.shape[1] + 1, device=weight.device).sin().to(weight.dtype)
        return torch.cat((weight @ r, r @ self.project.weight, head.bias, self.project.bias))

    def _fold(self, head: nn.Linear) -> tuple[Tensor, Tensor]:
        matrix = self.project.weight @ head.weight
        return matrix, self.project.weight @ head.bias + self.project.bias

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        matrix, bias = self.folded(head)
        return F.linear(h, matrix, bias.to(matrix.dtype))


def _same(a: Tensor, b: Tensor) -> bool:
    return a.device == b.device and a.dtype == b.dtype and torch.equal(a, b)


class SoftmaxBridge(nn.Module):
    """An expected embedding under the anchor distribution: a real bottleneck."""

    def __init__(self, head: nn.Linear, width: int):
        super().__init__()
        self.project = nn.Linear(head.out_features, width)
        nn.init.normal_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        return self.project(head(h).softmax(dim=-1))


class EmbeddingBridge(nn.Module):
    """The expected *input* embedding: masks filled in softly. It has no weights of its own."""

    def __init__(self, head: nn.Linear, width: int):
        super().__init__()

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        return head(h).softmax(dim=-1) @ embed.weight


class HiddenBridge(nn.Module):
    """No vocabulary between the networks: Linear(D -> D)."""

    def __init__(self, head: nn.Linear, width: int):
        super().__init__()
        self.project = nn.Linear(width, width)
        nn.init.normal_(self.project.weight, std=width**-0.5)
        nn.init.zeros_(self.project.bias)

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        return self.project(h)


BRIDGES: dict[str, type[nn.Module]] = {
    "linear": LinearBridge,
    "softmax": SoftmaxBridge,
    "embedding": EmbeddingBridge,
    "hidden": HiddenBridge,
}


class Update(nn.Module):
    """h + g * silu(W [h ; e(z)]): tells the denoiser what was written since the anchors were seen.

    g starts at zero, so that a fresh model passes the anchor network's word on as it is.
    """

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(2 * width, width)
        self.gate = nn.Parameter(torch.zeros(width))

    def forward(self, h: Tensor, embedded: Tensor) -> Tensor:
        """h, embedded: (B, L, D) -> (B, L, D)."""
        both = torch.cat((h, embedded.to(h.dtype)), dim=-1)
        return h + self.gate * F.silu(self.inner(both))


class Anchored(Denoiser):
    """A denoiser that sees the sequence only through an anchor network's prediction.

    `trunk` and `head` are the denoiser's; `anchor_trunk` and `anchor_head` the anchor network's.
    With `residual` the anchor trunk's stream goes on into the denoiser beside the bridge. With
    `stale` it has the update that lets the anchor network rest for some steps.

    Example:
        >>> config = ModelConfig(width=8, blocks=1, heads=2, anchor_blocks=2)
        >>> model = Anchored(11, config, causal=False)
        >>> model(torch.zeros(2, 5, dtype=torch.long)).anchor.shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        vocab_size: int,
        config: ModelConfig,
        causal: bool,
        max_length: int = 1024,
        block: int = 0,
        stale: bool = False,
    ):
        super().__init__(vocab_size, config, causal, max_length, config.tied, block, config.shift)
        self.anchor_trunk = Trunk(config, causal, max_length, config.anchor_blocks)
        self.anchor_head = nn.Linear(config.width, vocab_size)
        nn.init.normal_(self.anchor_head.weight, std=config.width**-0.5)
        nn.init.zeros_(self.anchor_head.bias)
        if config.shared:
            self.anchor_head.weight = self.embed.weight
        self.bridge = BRIDGES[config.bridge](self.anchor_head, config.width)
        self.residual = config.residual
        for weight in self.bridge.parameters() if self.residual else ():
            nn.init.zeros_(weight)  # at first the denoiser just goes on
        self.update = Update(config.width) if stale else None

    def forward(self, z: Tensor, context: Context = Context()) -> States:
        """z: (B, L) tokens, or (B, L, D) input vectors; `wanted` are the denoiser's states.

        With `earlier`, the anchor network's word of an earlier pass, only the denoiser runs.
        """
        h, context = self.entered(z, context)
        anchor, bridged = None, context.earlier
        if bridged is None:
            anchor, bridged = self.foresee(h, context)
        cache = context.cache
        second = cache.split(self.anchor_trunk.depth)[1] if cache else None
        told = bridged if self.update is None else self.update(bridged, h)
        layout, at = self.layout(context), flat(context.wanted)
        denoised = self.trunk(told, layout, context.sigma, second, at=at)
        if cache is not None and second is not None:
            cache.length = second.length
        return replace(self.left(States(denoised, anchor), context), bridged=bridged)

    def anchored(self, z: Tensor, context: Context = Context()) -> tuple[Tensor, Tensor]:
        """Run the anchor network alone: its head's input, and `earlier` of a later pass."""
        return self.foresee(*self.entered(z, context))

    def foresee(self, h: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """The anchor head's input, and what goes on to the denoiser: (B, L, D) each."""
        layout, sigma, cache = self.layout(context), context.sigma, context.cache
        first = cache.split(self.anchor_trunk.depth)[0] if cache else None
        stream = self.anchor_trunk(h, layout, sigma, first, finish=False)
        anchor = self.anchor_trunk.finish(stream, self.anchor_trunk.condition(stream, sigma))
        bridged = self.bridge(anchor, self.anchor_head, self.embed)  # (B, L, D)
        return anchor, bridged + stream if self.residual else bridged.to(stream.dtype)
