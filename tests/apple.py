"""A device without fp64, as Apple's is, that computes on the CPU.

Torch's builds for Linux refuse the name mps, so it goes by one that they know and have no use for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
NAME = "lazy"
MOVES = (aten._to_copy.default, aten.copy_.default)  # may see two devices
INDEXED = (aten.index.Tensor, aten.index_put_.default)  # may be indexed from the CPU


class OnApple(Tensor):
    """A tensor that says it is on the device; its numbers are in `held`, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnApple:
        if held.dtype == torch.float64:
            raise TypeError("this device has no float64")
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=NAME,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})


class Apple(TorchDispatchMode):
    """Inside, tensors can be made on the device and moved there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})


def call(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the numbers; what comes out is on the device where it belongs."""
    flat: list[Tensor] = []
    over(args, flat.append)
    there = any(isinstance(a, OnApple) for a in flat)
    mixed = there and any(a.ndim for a in flat if not isinstance(a, OnApple))
    if mixed and func not in MOVES:
        seen = args[0] if func in INDEXED else None
        if not isinstance(seen, OnApple):
            raise RuntimeError(f"{func}: tensors on the device and on the CPU")
    if func is aten._local_scalar_dense.default or func is aten.copy_.default:
        there = isinstance(args[0], OnApple)
    if (device := kwargs.get("device")) is not None:
        there = torch.device(device).type == NAME
        kwargs = {**kwargs, "device": torch.device("cpu")}
    out = func(*over(args, numbers), **{k: over(v, numbers) for k, v in kwargs.items()})
    if not there:
        return out
    changed = [a for a in flat if isinstance(a, OnApple)]

    def back(t: Tensor) -> Tensor:
        same = [a for a in changed if a.held is t]  # what an in-place operation returns
        return same[0] if same else OnApple(t)

    return over(out, back)


def numbers(t: Tensor) -> Tensor:
    return t.held if isinstance(t, OnApple) else t


def over(value: Any, use: Any) -> Any:
    """The value with `use` of each tensor in it."""
    if isinstance(value, Tensor):
        return use(value)
    return type(value)(over(v, use) for v in value) if type(value) in (tuple, list) else value
