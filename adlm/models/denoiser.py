"""Tokens -> trunk -> vocabulary: the plain model behind AR and MDLM."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from adlm.data.counts import CorpusCounts
from adlm.nn.blocks import BlockLayout
from adlm.nn.cache import Cache
from adlm.nn.config import TrunkConfig
from adlm.nn.context import Context
from adlm.nn.effort import Effort
from adlm.nn.layout import Layout
from adlm.nn.transformer import Trunk, flat


@dataclass(frozen=True)
class States:
    """What a model says of a batch: the inputs of its heads."""

    denoiser: Tensor  # (B, L, D), or (N, D) where only some are wanted
    anchor: Tensor | None = None  # (B, L, D) of the anchor head, where there is one
    bridged: Tensor | None = None  # (B, L, D) what the anchor network gives the denoiser


class Denoiser(nn.Module):
    """Embedding, trunk and vocabulary head.

    A pass gives states, not logits, so that objectives and samplers use `head` only at the
    positions where they need a number.

    Example:
        >>> model = Denoiser(11, TrunkConfig(width=8, blocks=1, heads=2), causal=False)
        >>> import torch
        >>> model.logits(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 11])
    """

    def __init__(
        self,
        vocab_size: int,
        trunk: TrunkConfig,
        causal: bool,
        max_length: int = 1024,
        tied: bool = False,
        block: int = 0,
        shift: bool = False,
        recall: bool = False,
    ):
        super().__init__()
        self.reach: int | None = None  # how far ahead positions see while attention opens
        self.block, self.window = block, max_length  # of block diffusion; 0 = whole rows
        self.trunk = Trunk(trunk, causal, max_length, recall=recall)
        self.trunk.effort = Effort.scored(trunk)
        self.counts: CorpusCounts | None = None  # of the training corpus, where samplers read them
        self.embed = nn.Embedding(vocab_size, trunk.width)
        self.head = nn.Linear(trunk.width, vocab_size)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        if tied:
            self.head.weight = self.embed.weight
        # what stands before a row whose token l is predicted by position l - 1
        self.start = nn.Parameter(torch.zeros(trunk.width)) if shift else None

    @property
    def causal(self) -> bool:
        return self.trunk.causal

    def new_cache(self) -> Cache:
        """Return an empty memory for decoding."""
        trunks = [t for t in self.modules() if isinstance(t, Trunk)]
        return Cache.empty(sum(len(t.effort.order(t.depth)) for t in trunks))

    def forward(self, z: Tensor, context: Context = Context()) -> States:
        """z: (B, L) tokens, or (B, L, D) input vectors instead of them."""
        h, c = self.entered(z, context)
        h = self.trunk(h, self.layout(c), c.sigma, c.cache, at=flat(c.wanted))
        return self.left(States(h), c)

    def entered(self, z: Tensor, context: Context) -> tuple[Tensor, Context]:
        """The trunk's input: (B, L, D), or (B, L + 1, D) with the start before the row."""
        h, context = self.embedded(z), replace(context, layout=self.layout(context))
        if self.start is None:
            return h, context
        first = self.start.to(h.dtype).expand(len(h), 1, -1)
        return torch.cat((first, h), dim=1), context.preceded()

    def left(self, states: States, context: Context) -> States:
        """The states that predict the row's tokens: all but the last, whose token is beyond it."""
        if self.start is None:
            return states
        anchor = None if states.anchor is None else states.anchor[:, :-1]
        every = context.wanted is None
        return States(states.denoiser[:, :-1] if every else states.denoiser, anchor)

    def embedded(self, z: Tensor) -> Tensor:
        """(B, L) tokens -> (B, L, D); input vectors stay as they are."""
        return z if z.is_floating_point() else self.embed(z)

    def layout(self, context: Context) -> Layout:
        """The layout of a pass: the model's own where none is given."""
        layout = context.layout or self.own_layout()
        return layout if self.reach is None else replace(layout, reach=self.reach)

    def own_layout(self, segment: Tensor | None = None) -> Layout:
        """What positions see in a model of whole rows, of tokens in turn, or of blocks in turn."""
        if self.block:
            return BlockLayout(segment=segment, block=self.block, window=self.window)
        return Layout(self.causal, segment)

    def shown(self, z: Tensor, x: Tensor, segment: Tensor | None = None) -> tuple[Tensor, Layout]:
        """Return the input and layout that score z: (B, L), of clean tokens x: (B, L).

        That is z itself, and [z ; x] in block diffusion, whose states begin with those of z.
        """
        layout = self.own_layout(segment)
        if isinstance(layout, BlockLayout):
            return torch.cat((z, x), dim=1), replace(layout, paired=True)
        return z, layout

    def logits(self, z: Tensor, context: Context = Context()) -> Tensor:
        """Raw logits: (B, L, V), or (N, V) where only some positions are wanted."""
        return self.head(self(z, context).denoiser)
