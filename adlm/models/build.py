"""Configuration -> network."""

from __future__ import annotations

from adlm import registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.models.init import start_as_published


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
    made: Denoiser
    if model.anchor_blocks:
        stale = config.anchor.stale > 0
        made = Anchored(vocab_size, model, causal, length, block, stale)
    else:
        recall = model.recall > 0
        made = Denoiser(vocab_size, model, causal, length, model.tied, block, model.shift, recall)
    if model.init == "published":
        start_as_published(made)
    return made
