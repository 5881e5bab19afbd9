"""Checkpoint folder -> model."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.models.checkpoint import Checkpoint
from adlm.models.cost import least_weights
from adlm.models.denoiser import Denoiser
from adlm.models.tensors import fit


def load_model(saved: Checkpoint, device: str = "cpu") -> Denoiser:
    """Return the network of a checkpoint with its (averaged) weights, ready for evaluation."""
    least = least_weights(saved.config, saved.vocab.size)
    if saved.held.bytes < least:  # a byte each: nothing is made of a size that a file only claims
        raise UserError(
            f"{saved.path} does not fit its configuration: a network of {least:,} weights or more "
            f"is not in {saved.held.bytes:,} bytes"
        )
    model = build_model(saved.config, saved.vocab.size)
    fill(model, saved.weights(), saved.path)
    return model.to(device).eval()


def fill(
    model: nn.Module,
    tensors: dict[str, Tensor],
    path: Path | str,
    names: dict[str, str] | None = None,
) -> None:
    """Put the tensors into the model; raise UserError on one that does not fit.

    `names` are what the file calls them, where that is something else.
    """
    fit(tensors, model.state_dict(), path, names)
    model.load_state_dict(tensors)
