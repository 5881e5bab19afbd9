"""The zero-shot suite: perplexity of one checkpoint on text of other kinds than its own.

Sets that are not to be had are named with the reason, never passed over in silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adlm.config import DataConfig
from adlm.data import cache
from adlm.data.corpus import open_rows
from adlm.data.dataset import DataSet
from adlm.data.lengths import Lengths
from adlm.data.pack import Rows, published
from adlm.data.sources import find_local, open_source
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.eval import paper
from adlm.eval.likelihood import describe, sign
from adlm.objectives.base import Objective
from adlm.objectives.likelihood import Likelihood
from adlm.progress import console
from adlm.registry import lookup

SUITE = (
    "lambada",
    "ptb",
    "wikitext-2",
    "wikitext-103",
    "lm1b",
    "ag_news",
    "pubmed",
    "arxiv",
    "scitldr",
    "openwebtext",
)


@dataclass(frozen=True)
class Packing:
    """How documents become rows: ours, or the published loaders'."""

    compat: bool = False
    workers: int = 1  # of the published loader, which changes its rows

    def rows(self, config: DataConfig, split: str, vocab: Vocab) -> Rows:
        if not self.compat:
            return open_rows(replace(config, packing="wrap"), split, vocab)
        store = cache.load(open_source(config, split), vocab, config.workers)
        return published(store, vocab, config.length, self.workers)

    def __str__(self) -> str:
        return f"published loader, {self.workers} worker(s)" if self.compat else "wrap"


def where(config: DataConfig, hub: bool) -> str:
    """The split of a set that is scored: the validation split, or else the test split."""
    declared: DataSet = lookup("dataset", config.name)
    splits = [s for s in ("valid", "test") if s in declared.files]
    for split in splits:
        if find_local(config, split):
            return split
    if hub and declared.hub:
        return next(s for s in splits if s in declared.hub_splits)
    named = dict.fromkeys(f for s in splits for f in declared.files[s])
    files = " or ".join(f"{config.name}/{name}" for name in named)
    raise UserError(f"no {files} in the data folder")


def run(
    names: list[str],
    base: DataConfig,
    vocab: Vocab,
    objective: Objective,
    packing: Packing,
    hub: bool,
    score: Callable[[Rows], Likelihood],
    lengths: Lengths,
    seed: int,
    known: dict[str, Any],
    keep: Callable[[dict[str, Any], dict[str, str]], None],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Score the sets one by one; `keep` is called after each, `known` ones are not done again."""
    done: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    for name in names:
        config = replace(base, name=name)
        try:
            split = where(config, hub)
            rows = packing.rows(config, split, vocab)
            before = known.get(name, {})
            if before.get("data_hash") == rows.store.key:
                done[name] = before
                continue
            console.print(f"{name} ({split}): {len(rows):,} rows")
            found = score(rows)
        except UserError as error:
            skipped[name] = str(error)
            keep(done, skipped)
            continue
        if not math.isfinite(found.nll):
            skipped[name] = "the likelihood is not finite"
        else:
            done[name] = {
                "split": split,
                **describe(found, rows, objective, lengths, seed),
                "data_hash": rows.store.key,
                "packing": str(packing),
                "paper": paper.ZERO_SHOT.get(name),
            }
        keep(done, skipped)
    return done, skipped


def table(done: dict[str, Any]) -> str:
    """Markdown: ours beside the paper's."""
    head = ["set", "split", "tokens", "PPL", "paper: AR", "MDLM", "ADLM 524B"]
    lines = [head, ["---"] * len(head)]
    for name, r in done.items():
        error = "" if r["se_ppl"] is None else f" ± {r['se_ppl']:.2f}"
        said = r["paper"] or {}
        theirs = [f"{said[k]:.2f}" if k in said else "" for k in ("AR", "MDLM", "ADLM 524B")]
        figure = f"{sign(r)}{r['ppl']:.2f}{error}"
        lines.append([name, r["split"], f"{r['tokens']:,}", figure, *theirs])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
