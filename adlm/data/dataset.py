"""What a named data set declares: its files, its place on the hub, and how to read both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adlm.data.detokenize import none

SPLITS = ("train", "valid", "test")
ALIASES = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}


def split_of(index: int) -> str:
    """Name the split of a document of data that have no splits: of every ten documents the ninth is
    for validation and the tenth for the test.

    Example:
        >>> [split_of(i) for i in (0, 7, 8, 9, 18)]
        ['train', 'train', 'valid', 'test', 'valid']
    """
    return {8: "valid", 9: "test"}.get(index % 10, "train")


def carve(split: str, missing: Collection[str], train: Iterator[str]) -> Iterator[str]:
    """Yield a split's share of the training documents; splits that the data lack come out of them.

    Example:
        >>> list(carve("train", ["valid"], iter("abcdefghij")))
        ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'j']
        >>> list(carve("valid", ["valid"], iter("abcdefghij")))
        ['i']
    """
    for i, text in enumerate(train):
        place = split_of(i) if split_of(i) in missing else "train"
        if place == split:
            yield text


@dataclass(frozen=True)
class DataSet:
    """A named set. Files are looked for in the data folder, then the set is asked of the hub."""

    files: dict[str, tuple[str, ...]]  # split -> file names, the first that exists is read
    read: Callable[[Path, str], Iterator[str]]  # (file, split) -> raw documents
    detokenize: Callable[[str], str] = none
    hub: tuple[str, str | None] | None = None  # (name, configuration)
    hub_splits: dict[str, str] = field(default_factory=dict)
    hub_text: Callable[[dict[str, Any]], str] = lambda record: record["text"]
    hub_stream: Callable[[Iterator[str]], Iterator[str]] = iter  # hub records -> documents
    package: str | None = None  # an installed package that carries the files
