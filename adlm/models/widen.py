"""Rows for new tokens."""

from __future__ import annotations

import torch

from adlm.config import Config
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser


@torch.no_grad()
def widen(model: Denoiser, config: Config, size: int) -> Denoiser:
    """Return the model with rows for new tokens, which start as the mean of the old ones."""
    wide = build_model(config, size)
    old = model.state_dict()
    for name, tensor in wide.state_dict().items():
        have = old[name]
        if tensor.shape == have.shape:
            tensor.copy_(have)
            continue
        axis = int(len(tensor) == len(have))  # the vocabulary's; a bridge's matrix is (D, V)
        tensor.copy_(have.float().mean(axis, keepdim=True).expand_as(tensor))
        tensor.narrow(axis, 0, have.shape[axis]).copy_(have)
    return wide
