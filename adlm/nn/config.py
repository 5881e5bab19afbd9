"""The shape of a trunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
