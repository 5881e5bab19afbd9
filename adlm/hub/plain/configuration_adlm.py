"""The configuration of an adlm model for plain transformers."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class AdlmConfig(PretrainedConfig):
    """`adlm` is the configuration that adlm itself reads; its "model" is the network.

    A causal network sees all tokens before a position, one with blocks all blocks up to its own.
    """

    model_type = "adlm"

    def __init__(
        self,
        adlm: dict[str, Any] | None = None,
        vocab_size: int = 258,
        causal: bool = False,
        block: int = 0,
        mask_token_id: int | None = None,
        **kwargs: Any,
    ):
        self.adlm = adlm or {}
        self.vocab_size = vocab_size
        self.causal = causal
        self.block = block
        self.mask_token_id = mask_token_id
        super().__init__(**kwargs)

    @property
    def max_position_embeddings(self) -> int:
        """Tokens in a row."""
        return self.adlm.get("data", {}).get("length", 64)

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.adlm.get("model", {}).get("width", 128)
