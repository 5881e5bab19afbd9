"""AG News: `"class","title","description"`, no header line; a text is title and description."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from adlm.data import files
from adlm.data.dataset import DataSet
from adlm.errors import UserError
from adlm.registry import register


def news(path: Path, split: str) -> Iterator[str]:
    reader = csv.reader(line + "\n" for line in files.lines(path))
    for number, row in enumerate(reader, 1):
        if len(row) != 3:
            raise UserError(f"{path} record {number} must have 3 columns, found {len(row)}")
        yield f"{row[1]} {row[2]}"


register("dataset", "ag_news")(
    DataSet(
        files={"train": ("train.csv",), "valid": ("test.csv",), "test": ("test.csv",)},
        read=news,
        hub=("fancyzhx/ag_news", None),
        hub_splits={"train": "train", "valid": "test", "test": "test"},
    )
)
