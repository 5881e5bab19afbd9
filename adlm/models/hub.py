"""Checkpoint folder -> model."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.models.checkpoint import Checkpoint
from adlm.models.denoiser import Denoiser


def load_model(saved: Checkpoint, device: str = "cpu") -> Denoiser:
    """Return the network of a checkpoint with its (averaged) weights, ready for evaluation."""
    model = build_model(saved.config, saved.vocab.size)
    fill(model, saved.weights(), saved.path)
    model.counts = saved.counts()
    return model.to(device).eval()


def fill(
    model: nn.Module,
    tensors: dict[str, Tensor],
    path: Path | str,
    names: dict[str, str] | None = None,
) -> None:
    """Put the tensors into the model; raise UserError on a missing or misshapen one.

    `names` are what the file calls them, where that is something else.
    """
    own, theirs = model.state_dict(), names or {}
    for name, tensor in own.items():
        said = theirs.get(name, name)
        if name not in tensors:
            raise UserError(f"{path} does not fit its configuration: it lacks the tensor {said}")
        if tensors[name].shape != tensor.shape:
            found, right = tuple(tensors[name].shape), tuple(tensor.shape)
            raise UserError(f"{path}: the tensor {said} has shape {found} instead of {right}")
    extra = sorted(set(tensors) - set(own))
    if extra:
        said = theirs.get(extra[0], extra[0])
        raise UserError(f"{path} does not fit its configuration: it has a tensor {said}")
    model.load_state_dict(tensors)
