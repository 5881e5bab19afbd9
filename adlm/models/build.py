"""Configuration -> network."""

from __future__ import annotations

from adlm import registry
from adlm.config import Config
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser


def build_model(config: Config, vocab_size: int) -> Denoiser:
    """Build the network of a configuration, freshly initialised."""
    causal = registry.lookup("objective", config.objective).causal
    length = config.data.length
    if config.model.anchor_blocks:
        return Anchored(vocab_size, config.model, causal, length)
    return Denoiser(vocab_size, config.model, causal, length, config.model.tied)
