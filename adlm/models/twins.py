"""Matrices that are the input embedding under another name: a file may have them once."""

from __future__ import annotations

from torch import Tensor

from adlm.nn.config import ModelConfig


def twins(model: ModelConfig) -> list[str]:
    """Name the tensors that are the input embedding's own matrix: a file may have it once."""
    names = {"head.weight": model.tied, "anchor_head.weight": model.shared and model.anchor_blocks}
    return [name for name, tied in names.items() if tied]


def with_twins(tensors: dict[str, Tensor], model: ModelConfig) -> dict[str, Tensor]:
    """Return the tensors with all that are the input embedding under their own names."""
    if "embed.weight" not in tensors:
        return tensors
    return {**{name: tensors["embed.weight"] for name in twins(model)}, **tensors}
