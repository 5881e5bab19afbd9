"""Read a file of torch.save as data: tensors and plain containers, and nothing of it is called.

A training checkpoint is a pickle, and a pickle is a program. Of all that it may name, this reader
knows ordered dictionaries, tensors and their storages; whatever else it names becomes an inert
`Placeholder`, which keeps what it was given and does nothing. A tensor stays in the file until it
is asked for. Only `adlm import` reads such files.
"""

from __future__ import annotations

import io
import math
import pickle
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adlm.errors import UserError

MOST = 1 << 28  # bytes of the pickle itself, without the tensors
STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
}


class Placeholder:
    """Stands for an object whose class is not admitted; `state` is the data it would have had."""

    __slots__ = ("state",)

    def __new__(cls, *given: Any, **named: Any) -> Placeholder:
        made = object.__new__(cls)
        made.state = given
        return made

    def __init__(self, *given: Any, **named: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    extend = add = update = append


class Table(dict):
    """Stands for an ordered dictionary; attributes that it would have had are left out."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor that is still in the file."""

    storage: tuple[str, torch.dtype, int]  # its name there, type, number of elements
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool = False
    hooks: Any = None
    metadata: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.size)


class Parameter:
    """Stands for nn.Parameter: the tensor alone."""

    __slots__ = ()
    __setstate__ = None

    def __new__(cls, data: Any = None, *rest: Any) -> Any:
        return data


ADMITTED: dict[tuple[str, str], type] = {
    ("collections", "OrderedDict"): Table,
    ("torch._utils", "_rebuild_tensor_v2"): Stored,
    ("torch._utils", "_rebuild_parameter"): Parameter,
}


class Reader(pickle.Unpickler):
    """An unpickler that finds no class but those above."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return name
        return ADMITTED.get((module, name), Placeholder)

    def persistent_load(self, pid: Any) -> Any:
        kind, storage, key, _, count = pid
        if kind != "storage" or storage not in STORAGES:
            raise pickle.UnpicklingError(f"it has a storage of kind {storage!r}")
        return str(key), STORAGES[storage], int(count)


class Archive:
    """A file of torch.save: `content` is what was saved, with `Stored` tensors in it."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            said = f"{path} is not a file of torch.save, or is truncated ({error})"
            raise UserError(said) from None
        inside = [n for n in self.zip.namelist() if n.endswith("/data.pkl") and n.count("/") == 1]
        if len(inside) != 1 or self.zip.getinfo(inside[0]).file_size > MOST:
            raise UserError(f"{path} is not a file of torch.save: it has no data.pkl")
        self.home = inside[0].removesuffix("data.pkl")
        order = f"{self.home}byteorder"
        if order in self.zip.namelist() and self.zip.read(order) != sys.byteorder.encode():
            raise UserError(f"{path} was written on a machine with another order of bytes")
        try:
            self.content: Any = Reader(io.BytesIO(self.zip.read(inside[0]))).load()
        except Exception as error:  # a pickle may go wrong in any way
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{path} cannot be read as data ({said})") from None

    def tensor(self, stored: Stored, name: str) -> Tensor:
        """Read a tensor from the file."""
        try:
            key, dtype, count = stored.storage
            info = self.zip.getinfo(f"{self.home}data/{key}")
            if info.file_size != count * dtype.itemsize or math.prod(stored.size) > count:
                raise ValueError(f"{info.file_size} bytes for shape {tuple(stored.size)}")
            flat = torch.frombuffer(bytearray(self.zip.read(info)), dtype=dtype)
            return flat.as_strided(stored.size, stored.stride, stored.offset).clone()
        except Exception as error:  # what the pickle says of a tensor may be anything
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{self.path}: the tensor {name} is damaged ({said})") from None


def plain(value: Any) -> Any:
    """The settings in OmegaConf's placeholders as plain dictionaries; what is none of them is None.

    Example:
        >>> node, tree = Placeholder(), Placeholder()
        >>> node.state = {"_val": 12}
        >>> tree.state = {"_content": {"heads": node}}
        >>> plain(tree)
        {'heads': 12}
    """
    if isinstance(value, Placeholder):
        state = value.state if isinstance(value.state, dict) else {}
        return plain(state["_content"] if "_content" in state else state.get("_val"))
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if isinstance(k, str)}
    return value if isinstance(value, str | int | float | bool) else None
