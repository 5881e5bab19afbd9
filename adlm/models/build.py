"""Configuration -> network."""

from __future__ import annotations

from adlm import registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser


def build_model(config: Config, vocab_size: int) -> Denoiser:
    """Build the network of a configuration, freshly initialised."""
    kind = registry.lookup("objective", config.objective)
    causal, model = kind.causal, config.model
    if model.shift and (causal or kind.in_blocks):
        raise UserError(
            f"model.shift is for diffusion over whole rows, found the objective {config.objective}"
        )
    if model.recall and (causal or kind.in_blocks or model.anchor_blocks or model.shift):
        raise UserError(
            "model.recall is for plain diffusion over whole rows, without anchor network and "
            f"model.shift; found the objective {config.objective}"
        )
    length = config.data.length + model.shift
    block = config.process.block if kind.in_blocks else 0
    if model.anchor_blocks:
        stale = config.anchor.stale > 0
        return Anchored(vocab_size, model, causal, length, block, stale)
    recall = model.recall > 0
    return Denoiser(vocab_size, model, causal, length, model.tied, block, model.shift, recall)
