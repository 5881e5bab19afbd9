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
        shift: Position l - 1 predicts token l, as in the causal model that a diffusion model was
            made of (--base sets it); a learned vector stands before the row.
    """

    tied: bool = False
    anchor_blocks: int = 0
    bridge: Literal["linear", "softmax", "embedding", "hidden"] = "linear"
    residual: bool = False
    shared: bool = False
    shift: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "model.", 1, width=2**20, blocks=1000, heads=2**16, mlp=1024)
        check_sizes(self, "model.", 0, anchor_blocks=1000, conv=4096, time=2**20)
        fits = self.width % self.heads == 0 and self.width // self.heads % 2 == 0
        check(fits, "model.heads", self.heads, f"a divisor of width {self.width} into even parts")
        check(self.conv == 0 or self.conv % 2 == 1, "model.conv", self.conv, "0 or an odd number")
        for name in ("dropout", "attention_dropout"):
            check(0 <= getattr(self, name) < 1, f"model.{name}", getattr(self, name), "in [0, 1)")
