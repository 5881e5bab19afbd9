"""A sharded training's tensors: each process writes its rows to a safetensors file of its own.

The files are those of PyTorch's distributed checkpoints in safetensors form: the header says, for
each piece of a tensor, at which offsets of the whole it lies. Here they are put together for
evaluation, export and a training that is not sharded. Anyone can write such a header, so pieces
must cover a tensor exactly before memory is taken for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from safetensors import SafetensorError
from torch import Tensor

from adlm.errors import UserError
from adlm.models.held import Held

NAME = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")
WHERE = "DCP_SHARDING_INFO"  # PyTorch's name in the header


@dataclass(frozen=True)
class Piece:
    """A box of a tensor that lies in a file."""

    file: str
    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def place(self) -> tuple[slice, ...]:
        return tuple(slice(o, o + n) for o, n in zip(self.offsets, self.shape, strict=True))


def among(files: Iterable[str]) -> tuple[str, ...]:
    """Return those file names that are parts."""
    return tuple(sorted(name for name in files if NAME.fullmatch(name)))


def one_hash(hashes: Sequence[str]) -> str:
    """Return one hash of several files; of one file its own."""
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def read(held: Held, files: Sequence[str], begin: str = "") -> dict[str, Tensor]:
    """Put together the tensors whose names begin so."""
    found: dict[str, list[Piece]] = defaultdict(list)
    try:
        for file in files:
            opened = held.tensor_files[file]
            where = json.loads((opened.metadata() or {}).get(WHERE, "{}"))
            for name in opened.keys():  # noqa: SIM118
                if name.startswith(begin):
                    shape = tuple(opened.get_slice(name).get_shape())
                    offsets = tuple(int(o) for o in where[name]["saved_offsets"])
                    found[name].append(Piece(file, offsets, shape))
        return {name: join(held, name, pieces) for name, pieces in found.items()}
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"the parts in {held.folder} do not fit together ({error})") from None


def join(held: Held, name: str, pieces: list[Piece]) -> Tensor:
    """Put one tensor together from all of its pieces."""
    size = [max(ends) for ends in zip(*(stops(p) for p in pieces), strict=True)]
    if any(o < 0 for p in pieces for o in p.offsets) or overlap(pieces):
        raise ValueError(f"pieces of {name} lie over each other")
    if sum(math.prod(p.shape) for p in pieces) != math.prod(size):
        raise ValueError(f"pieces of {name} are missing")
    whole = None
    for piece in pieces:
        tensor = held.tensor_files[piece.file].get_tensor(name)
        whole = torch.empty(size, dtype=tensor.dtype) if whole is None else whole
        whole[piece.place] = tensor
    assert whole is not None
    return whole


def stops(piece: Piece) -> list[int]:
    return [s.stop for s in piece.place]


def overlap(pieces: list[Piece]) -> bool:
    """Do two pieces, which are rows of a tensor, share a row?"""
    if len(pieces) == 1 or not pieces[0].shape:
        return len(pieces) > 1
    rows = sorted(p.place[0].indices(2**62)[:2] for p in pieces)
    return any(a[1] > b[0] for a, b in pairwise(rows))
