"""Tensors from a file: named, shaped and typed as they have to be, and finite, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from adlm.errors import UserError

Names = Mapping[str, str]  # what a file calls a tensor that has another name here


def fit(
    found: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    path: Path | str,
    names: Names | None = None,
) -> None:
    """Raise UserError unless the tensors have the names, shapes and kind of number of `own`.

    Any floating type stands for any other.

    Example:
        >>> import torch
        >>> fit({"w": torch.ones(())}, {"w": torch.ones(2)}, "a.safetensors")
        Traceback (most recent call last):
        adlm.errors.UserError: a.safetensors: the tensor w has shape () instead of (2,)
    """
    for name, tensor in own.items():
        said = (names or {}).get(name, name)
        if name not in found:
            raise UserError(f"{path} does not fit its configuration: it lacks the tensor {said}")
        fit_one(found[name], tensor, said, path)
    if extra := sorted(set(found) - set(own)):
        said = (names or {}).get(extra[0], extra[0])
        raise UserError(f"{path} does not fit its configuration: it has a tensor {said}")


def fit_one(found: Tensor, own: Tensor, name: str, path: Path | str) -> None:
    """Raise UserError unless a tensor can stand in the place of `own`."""
    if found.shape != own.shape:
        shapes = f"{tuple(found.shape)} instead of {tuple(own.shape)}"
        raise UserError(f"{path}: the tensor {name} has shape {shapes}")
    if found.is_floating_point() != own.is_floating_point() or found.is_complex():
        kinds = f"{str(found.dtype)[6:]} instead of {str(own.dtype)[6:]}"
        raise UserError(f"{path}: the tensor {name} has numbers of type {kinds}")
    if not found.isfinite().all():
        raise UserError(f"{path}: the tensor {name} has numbers that are not finite (NaN, Inf)")
