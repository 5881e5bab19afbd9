"""Files of a checkpoint held open, so that they can be read to the end when others remove them.

A run keeps only its newest checkpoints. Who reads one that is removed meanwhile still has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from adlm.errors import UserError
from adlm.values import read_small


class Held:
    """The tensor files of a folder, opened, and the texts of small others, by their names."""

    def __init__(self, folder: Path, names: Iterable[str]):
        self.folder = folder
        self.bytes = 0  # of the tensor files
        self.texts: dict[str, bytes] = {}
        self.tensor_files: dict[str, Any] = {}
        for name in names:
            path = folder / name
            if path.suffix == ".safetensors":
                self.bytes += path.stat().st_size
                self.tensor_files[name] = opened(path)
            elif path.suffix == ".json":
                self.texts[name] = read_small(path)

    def tensors(self, name: str, begin: str = "") -> dict[str, Tensor]:
        """Return the tensors of a file whose names begin so."""
        path, file = self.folder / name, self.tensor_files[name]
        try:
            return {n: file.get_tensor(n) for n in file.keys() if n.startswith(begin)}  # noqa: SIM118
        except (SafetensorError, OSError, RuntimeError) as error:
            raise UserError(f"{path} is not a safetensors file ({error})") from None


def opened(path: Path) -> Any:
    """Open a safetensors file, or raise UserError."""
    try:
        return safe_open(path, "pt")
    except FileNotFoundError:
        raise UserError(f"the checkpoint is incomplete: {path} is missing") from None
    except (SafetensorError, OSError, RuntimeError) as error:
        raise UserError(f"{path} is not a safetensors file ({error})") from None
