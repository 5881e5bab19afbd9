"""OpenWebText: one document a jsonl line; the last 100,000 documents are held out, as published."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from adlm.data import files
from adlm.data.dataset import DataSet
from adlm.errors import UserError
from adlm.registry import register

HELD_OUT = 100_000
WHOLE = "openwebtext.jsonl"


def read(path: Path, split: str) -> Iterator[str]:
    if path.name != WHOLE:
        return files.jsonl(path)
    count = sum(1 for _ in files.lines(path))
    if count <= HELD_OUT:
        raise UserError(
            f"{path} has {count} documents, and the last {HELD_OUT} are held out: "
            "give train.jsonl and valid.jsonl instead"
        )
    start, stop = (0, count - HELD_OUT) if split == "train" else (count - HELD_OUT, count)
    return islice(files.jsonl(path), start, stop)


register("dataset", "openwebtext")(
    DataSet(
        files={
            "train": ("train.jsonl", WHOLE),
            "valid": ("valid.jsonl", WHOLE),
            "test": ("test.jsonl", "valid.jsonl", WHOLE),
        },
        read=read,
        hub=("Skylion007/openwebtext", None),
        hub_splits={
            "train": f"train[:-{HELD_OUT}]",
            "valid": f"train[-{HELD_OUT}:]",
            "test": f"train[-{HELD_OUT}:]",
        },
    )
)
