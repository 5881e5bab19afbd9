"""WikiText-2 and WikiText-103: tokenised, one paragraph a line. A document is an article."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from adlm.data import detokenize, files
from adlm.data.dataset import SPLITS, DataSet
from adlm.registry import register

TITLE = re.compile(r"^ ?= [^=].* = ?$")  # " = Title = "; sections have more equals signs


def articles(lines: Iterator[str]) -> Iterator[str]:
    """Lines between one title and the next."""
    held: list[str] = []
    for line in lines:
        line = line.rstrip("\n")
        if TITLE.match(line) and any(part.strip() for part in held):
            yield "\n".join(held)
            held = []
        held.append(line)
    yield "\n".join(held)


def read(path: Path, split: str) -> Iterator[str]:
    return articles(files.lines(path))


for size in ("2", "103"):
    register("dataset", f"wikitext-{size}")(
        DataSet(
            files={split: (f"{split}.txt", f"wiki.{split}.tokens") for split in SPLITS},
            read=read,
            detokenize=detokenize.wikitext,
            hub=("Salesforce/wikitext", f"wikitext-{size}-v1"),
            hub_splits={"train": "train", "valid": "validation", "test": "test"},
            hub_stream=articles,
        )
    )
