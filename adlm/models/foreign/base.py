"""What a published format is, and how one becomes a checkpoint of ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from adlm import registry
from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.foreign.source import Source, is_buffer


class Format(ABC):
    """The key names of one project, and the configuration of ours that computes the same.

    A file of this folder registers one with `@register("foreign", name)`.
    """

    @abstractmethod
    def recognise(self, source: Source) -> bool:
        """Is it of this format? By its contents: a folder's name says nothing."""

    @abstractmethod
    def config(self, source: Source) -> Config:
        """Return our configuration of the same network; its tokenizer is chosen later."""

    @abstractmethod
    def names(self, source: Source) -> dict[str, str]:
        """Return our name of each tensor -> theirs."""

    def serves(self, rows: int, vocab: Vocab) -> bool:
        """May a network with so many rows have this vocabulary? Rows are then added or cut."""
        return rows == vocab.size

    def tensors(self, source: Source) -> dict[str, Tensor]:
        """Return the tensors under our names, fp32; raise UserError unless each has one."""
        names = self.names(source)
        left = sorted(k for k in set(source.tensors) - set(names.values()) if not is_buffer(k))
        if left:
            raise UserError(f"{source.file}: the tensor {left[0]} has no place in this network")
        return {ours: take(source, theirs).float() for ours, theirs in names.items()}


def take(source: Source, name: str) -> Tensor:
    """Return a tensor by its published name."""
    if name not in source.tensors:
        raise UserError(f"{source.file} lacks the tensor {name}")
    return source.tensors[name]


def find_format(source: Source) -> Format:
    """Return the format whose marks the source has."""
    for name in registry.names("foreign"):
        made: Format = registry.lookup("foreign", name)()
        if made.recognise(source):
            return made
    kind: Any = source.config.get("model_type") or "none named"
    known = ", ".join(registry.names("foreign"))
    raise UserError(f"{source.path} is of no format that can be imported ({known}): {kind}")
