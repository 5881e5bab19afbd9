"""One Billion Words: one sentence a line, tokenised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from adlm.data import detokenize, files
from adlm.data.dataset import DataSet
from adlm.registry import register


def sentences(path: Path, split: str) -> Iterator[str]:
    """One document a line."""
    return (line.strip() for line in files.lines(path))


register("dataset", "lm1b")(
    DataSet(
        files={
            "train": ("train.txt", "lm1b.train.txt"),
            "valid": ("valid.txt", "test.txt", "lm1b.test.txt"),
            "test": ("test.txt", "lm1b.test.txt"),
        },
        read=sentences,
        detokenize=detokenize.lm1b,
        hub=("dvruette/lm1b", None),
        hub_splits={"train": "train", "valid": "test", "test": "test"},
    )
)
