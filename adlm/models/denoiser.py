"""Tokens -> trunk -> vocabulary: the plain model behind AR and MDLM."""

from __future__ import annotations

from torch import Tensor, nn

from adlm.nn.cache import Cache
from adlm.nn.config import TrunkConfig
from adlm.nn.layout import Layout
from adlm.nn.transformer import Trunk, flat


class Denoiser(nn.Module):
    """Embedding, trunk and vocabulary head.

    `hidden` and `head` are separate, so that objectives and samplers build logits only at the
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
    ):
        super().__init__()
        self.trunk = Trunk(trunk, causal, max_length)
        self.embed = nn.Embedding(vocab_size, trunk.width)
        self.head = nn.Linear(trunk.width, vocab_size)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        if tied:
            self.head.weight = self.embed.weight

    @property
    def causal(self) -> bool:
        return self.trunk.causal

    def new_cache(self) -> Cache:
        """An empty memory for causal decoding."""
        return Cache.empty(sum(t.depth for t in self.modules() if isinstance(t, Trunk)))

    def hidden(
        self,
        z: Tensor,
        segment: Tensor | None = None,
        sigma: Tensor | None = None,
        cache: Cache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """z: (B, L) tokens, segment: (B, L) or None, sigma: (B,) or None -> (B, L, D).

        With `wanted`, (B, L) bool, only the states there: (N, D), for less work.
        """
        layout = Layout(self.causal, segment)
        return self.flow(self.embed(z), layout, sigma, cache, flat(wanted))

    def flow(
        self,
        h: Tensor,
        layout: Layout,
        sigma: Tensor | None = None,
        cache: Cache | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        """The same from input vectors instead of tokens: (B, L, D) -> (B, L, D), or (N, D) `at`."""
        return self.trunk(h, layout, sigma, cache, at=at)

    def logits(
        self,
        z: Tensor,
        segment: Tensor | None = None,
        sigma: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Raw logits at every position: (B, L, V)."""
        return self.head(self.hidden(z, segment, sigma, cache))
