"""Source code that everybody has: the top-level modules of Python's standard library.

A document is a module; of every ten in alphabetical order one is for validation, one for the test.
The text is that of the running Python, so figures are comparable for one version only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from adlm.data.dataset import SPLITS, DataSet, split_of
from adlm.registry import register


def modules(path: Path, split: str) -> Iterator[str]:
    for i, file in enumerate(sorted(path.glob("*.py"))):
        if split_of(i) == split:
            yield file.read_text(encoding="utf-8", errors="replace")


# found beside the package json, by a path that a data folder does not have
PLACE = ("../importlib/..",)
register("dataset", "stdlib")(
    DataSet(files=dict.fromkeys(SPLITS, PLACE), read=modules, package="json")
)
