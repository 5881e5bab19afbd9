"""The shape of a trunk, and of a whole network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adlm.values import check, check_sizes


@dataclass(frozen=True)
class TrunkConfig:
    """The shape of a transformer trunk.

    Attributes:
        width: Size D of the residual stream.
        blocks: Number of transformer blocks.
        heads: Attention heads; must divide width.
        mlp: Hidden size of the feed-forward layer, as a multiple of width.
        conv: Taps of the short convolution before each block; 0 = none, else odd.
        time: Size of the time embedding that modulates each block (adaLN); 0 = time-agnostic.
        qk_norm: Normalise queries and keys before attention.
        dropout: Dropout probability, of what attention and feed-forward layers add to the stream.
        attention_dropout: Dropout probability of the attention weights; the published DiT has none.
        bias: Biases in attention and norms, as in GPT-2.
        positions: rotary, or learned: one vector for each, added to the input, as in GPT-2.
    """

    width: int = 128
    blocks: int = 6
    heads: int = 4
    mlp: int = 4
    conv: int = 0
    time: int = 0
    qk_norm: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    bias: bool = False
    positions: Literal["rotary", "learned"] = "rotary"


@dataclass(frozen=True)
class ModelConfig(TrunkConfig):
    """The network.

    Attributes:
        tied: Share the input embedding with the output head.
        anchor_blocks: Blocks of the anchor network in front; `blocks` are then the denoiser's.
        bridge: How anchors enter the denoiser: linear (the paper's), softmax, embedding or hidden.
        residual: Add the anchor network's residual stream to what the bridge hands on.
        shared: The anchor head's matrix is the input embedding's.
        init: plain starts every block as the identity; published is the released code's, uniform
            with a standard deviation of (3 D)^-1/2 and both vocabulary heads at zero.
        shift: Position l - 1 predicts token l, as in the causal model that a diffusion model was
            made of (--base sets it); a learned vector stands before the row.
        loops: Most times that the blocks between the first and the last run: each training step
            draws how often, from 1 on; 1 = once, as usual.
        loops_scored: How often they run in scoring and sampling; 0 = as `loops` says.
        recall: Self-conditioning: in this share of the training's steps the network runs twice, and
            the second time is given the states that the first ended in; 0 = off.
        recall_passes: Whether it runs twice in scoring and sampling too (2) or once (1).
    """

    tied: bool = False
    anchor_blocks: int = 0
    bridge: Literal["linear", "softmax", "embedding", "hidden"] = "linear"
    residual: bool = False
    shared: bool = False
    init: Literal["plain", "published"] = "plain"
    shift: bool = False
    loops: int = 1
    loops_scored: int = 0
    recall: float = 0.0
    recall_passes: int = 2

    def __post_init__(self) -> None:
        check_sizes(self, "model.", 1, width=2**20, blocks=1000, heads=2**16, mlp=1024)
        check_sizes(self, "model.", 0, anchor_blocks=1000, conv=4096, time=2**20)
        fits = self.width % self.heads == 0 and self.width // self.heads % 2 == 0
        check(fits, "model.heads", self.heads, f"a divisor of width {self.width} into even parts")
        check(self.conv == 0 or self.conv % 2 == 1, "model.conv", self.conv, "0 or an odd number")
        check_sizes(self, "model.", 1, loops=64, recall_passes=2)
        check_sizes(self, "model.", 0, loops_scored=64)
        check(0 <= self.recall <= 1, "model.recall", self.recall, "in [0, 1]")
        looped = max(self.loops, self.loops_scored) > 1
        check(not looped or self.blocks >= 3, "model.blocks", self.blocks, "3 or more with loops")
        for name in ("dropout", "attention_dropout"):
            check(0 <= getattr(self, name) < 1, f"model.{name}", getattr(self, name), "in [0, 1)")
