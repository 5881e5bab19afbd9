"""Configuration -> network."""

from __future__ import annotations

from adlm import registry
from adlm.config import Config
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser


def build_model(config: Config, vocab_size: int) -> Denoiser:
    """Build the network of a configuration, freshly initialised."""
    kind = registry.lookup("objective", config.objective)
    causal, length = kind.causal, config.data.length
    block = config.process.block if kind.in_blocks else 0
    if config.model.anchor_blocks:
        return Anchored(vocab_size, config.model, causal, length, block)
    return Denoiser(vocab_size, config.model, causal, length, config.model.tied, block)
