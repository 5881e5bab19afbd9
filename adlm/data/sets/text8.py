"""text8: 100 million characters a-z and space, split 90 / 5 / 5 as is usual."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from adlm.data.dataset import SPLITS, DataSet
from adlm.errors import UserError
from adlm.registry import register

PIECE = 1 << 16
SHARES = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}


def read(path: Path, split: str) -> Iterator[str]:
    size = path.stat().st_size
    low, high = (round(size * share) for share in SHARES[split])
    with path.open("rb") as file:
        file.seek(low)
        while low < high:
            block = file.read(min(PIECE, high - low))
            low += len(block)
            try:
                yield block.decode("ascii")
            except UnicodeDecodeError:
                raise UserError(f"{path} must be plain a-z and spaces: it is not text8") from None


register("dataset", "text8")(
    DataSet(
        files={split: ("text8", "text8.txt") for split in SPLITS},
        read=read,
        hub=("afmck/text8", None),
        hub_splits={"train": "train", "valid": "validation", "test": "test"},
    )
)
