"""Scientific papers: PubMed and ArXiv articles (jsonl with `article_text`, a list of sentences).

PubMed also reads the PubMedQA file `ori_pqal.json`, where a text is the contexts of a question and
its long answer. SciTLDR has abstracts of computer-science papers (jsonl with `source`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from adlm.data import detokenize, files
from adlm.data.dataset import SPLITS, DataSet
from adlm.errors import UserError
from adlm.registry import register

HUB_SPLITS = {"train": "train", "valid": "validation", "test": "test"}


def questions(path: Path) -> Iterator[str]:
    """PubMedQA: {id: {CONTEXTS: [...], LONG_ANSWER: ...}}."""
    try:
        records = json.loads("\n".join(files.lines(path)))
        for record in records.values():
            yield " ".join([*record["CONTEXTS"], record["LONG_ANSWER"]])
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is not a PubMedQA file ({error!r})") from None


def field(name: str) -> Callable[[Path, str], Iterator[str]]:
    def read(path: Path, split: str) -> Iterator[str]:
        return questions(path) if path.suffix == ".json" else files.jsonl(path, name)

    return read


def declare(name: str, key: str, only_file: str | None = None) -> None:
    named: dict[str, tuple[str, ...]] = {
        split: (f"{split}.jsonl", f"{split}.txt") for split in SPLITS
    }
    if only_file:
        named["test"] += (only_file,)
    register("dataset", name)(
        DataSet(
            files=named,
            read=field(key),
            detokenize=detokenize.scientific,
            hub=("armanc/scientific_papers", name),
            hub_splits=HUB_SPLITS,
            hub_text=lambda record: record["article"],
        )
    )


declare("pubmed", "article_text", "ori_pqal.json")
declare("arxiv", "article_text")
register("dataset", "scitldr")(
    DataSet(
        files={"train": ("train.jsonl",), "valid": ("dev.jsonl",), "test": ("test.jsonl",)},
        read=field("source"),
        hub=("allenai/scitldr", "Abstract"),
        hub_splits=HUB_SPLITS,
        hub_text=lambda record: " ".join(record["source"]),
    )
)
