"""`eval zeroshot`: perplexity of one checkpoint on text of other kinds than its own.

Sets that are not to be had are named with the reason, never passed over in silence.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from adlm.config import DataConfig, check
from adlm.data import cache
from adlm.data.corpus import open_rows
from adlm.data.dataset import DataSet
from adlm.data.pack import Rows, published
from adlm.data.sources import find_local, open_source
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.eval import paper
from adlm.eval.base import CheckpointResult, Scoring
from adlm.eval.likelihood import ScoredText, describe
from adlm.models.checkpoint import Checkpoint
from adlm.models.hub import load_model
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.progress import console
from adlm.registry import lookup, register
from adlm.viz.page import Section
from adlm.world import World

SUITE = (
    "lambada", "ptb", "wikitext-2", "wikitext-103", "lm1b", "ag_news", "pubmed", "arxiv", "scitldr",
    "openwebtext",
)  # fmt: skip
PAPER = ("AR", "MDLM", "ADLM 262B", "ADLM 524B")  # whose figures stand beside


@dataclass(frozen=True)
class SetsPlace:
    """Where the sets are.

    Attributes:
        dir: Folder with the sets' files (docs/data.md has their forms); ADLM_DATA by default.
        workers: Processes that tokenise; 0 = all cores. Never changes the result.
    """

    dir: str | None = None
    workers: int = 0


@dataclass(frozen=True)
class ZeroshotSettings(Scoring):
    """Which sets are scored, and how.

    Attributes:
        sets: Which sets, as a list: '[ptb, lambada]'; all by default.
        data: Where the sets are.
        hub: Load sets that are not in the folder from the hub; by default where no folder is given.
        compat: paper packs as the published loaders do, so that the difference can be seen.
        loader_workers: How many workers that loader had; its rows depend on it.
        length: Tokens in a row; the trained length by default.
        limit: Score at most so many rows of a set, spread evenly; 0 = all.
    """

    sets: list[str] | None = None
    data: SetsPlace = SetsPlace()
    hub: bool | None = None
    compat: Literal["none", "paper"] = "none"
    loader_workers: int = 8
    length: int | None = None
    limit: int = 0

    def __post_init__(self) -> None:
        check(self.loader_workers >= 1, "--loader_workers", self.loader_workers, "at least 1")
        super().__post_init__()

    @property
    def from_hub(self) -> bool:
        """May sets be loaded from the hub?"""
        here = self.data.dir is not None or "ADLM_DATA" in os.environ
        return not here if self.hub is None else self.hub

    @property
    def packing(self) -> str:
        """How documents become rows, in words."""
        workers = self.loader_workers
        return "wrap" if self.compat == "none" else f"published loader, {workers} worker(s)"

    def rows(self, config: DataConfig, split: str, vocab: Vocab) -> Rows:
        """The rows of a set: packed as ours, or as the published loaders pack."""
        config = replace(config, packing="wrap")
        if self.compat == "none":
            return open_rows(config, split, vocab)
        store = cache.load(open_source(config, split), vocab, config.workers)
        return published(store, vocab, config.length, self.loader_workers)


@dataclass(frozen=True, kw_only=True)
class ScoredSet(ScoredText):
    """What was found on one set, and the paper's figures."""

    split: str
    data_hash: str
    packing: str = "wrap"
    paper: dict[str, float] | None = None


@register("result", "eval zeroshot")
@dataclass(frozen=True, kw_only=True)
class ZeroshotResult(CheckpointResult):
    """The sets that were scored, and why others were not."""

    command: ClassVar[str] = "eval zeroshot"
    length: int
    packing: str
    limit: int
    draws: int
    seed: int
    sets: dict[str, ScoredSet]
    skipped: dict[str, str] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        rows = []
        for title, found in self.sets.items():
            said = found.paper or {}
            theirs = [f"{said[n]:.2f}" if n in said else "" for n in PAPER]
            rows.append([title, found.cell(found.sign), f"{found.tokens:,}", *theirs])
        notes = [f"Skipped {title}: {why}." for title, why in self.skipped.items()]
        kinds = sorted({found.se_over for found in self.sets.values()})
        notes += [f"± is one standard error over {' or '.join(kinds)}."] if kinds else []
        notes.append("The paper's models were trained on OpenWebText with another vocabulary.")
        header = ["set", "PPL", "tokens scored", *(f"paper: {n}" for n in PAPER)]
        return Section("Zero-shot perplexity", header, rows, notes)


def measure(
    saved: Checkpoint,
    settings: ZeroshotSettings = ZeroshotSettings(),
    earlier: ZeroshotResult | None = None,
    keep: Callable[[ZeroshotResult], None] = lambda _: None,
    world: World = World(),
) -> ZeroshotResult:
    """Score the sets one by one; `keep` gets what there is after each.

    Each of several processes scores its share of a set's rows.
    Sets of an `earlier` result with the same settings stay, and are not scored again.
    """
    names = list(dict.fromkeys(SUITE if settings.sets is None else settings.sets))
    for name in names:
        lookup("dataset", name)
    most = saved.config.data.length
    length = most if settings.length is None else settings.length
    check(3 <= length <= most, "--length", length, f"3 to {most}, the trained length")
    device, precision = settings.place()
    result = ZeroshotResult(
        length=length,
        packing=settings.packing,
        limit=settings.limit,
        draws=settings.draws,
        seed=settings.seed,
        sets={},
    )
    result = result.of(saved).stamped(device, precision)
    if earlier and replace(earlier, sets={}, skipped={}, date=result.date) == result:
        result = replace(result, sets=earlier.sets)
    objective = evaluator(saved.config, saved.vocab, saved.counts())
    model = load_model(saved, device)
    place = settings.data
    base = replace(saved.config.data, length=length, dir=place.dir, workers=place.workers)
    scored, skipped = [], {}

    def one(name: str) -> ScoredSet:
        config = replace(base, name=name)
        split = split_of(config, settings.from_hub)
        rows = settings.rows(config, split, saved.vocab)
        known = result.sets.get(name)
        if known and known.data_hash == rows.store.key:
            return known
        console.print(f"{name} ({split}): {len(rows):,} rows")
        index = spread(len(rows), settings.limit)
        how = (settings.draws, settings.seed, settings.batch, device, precision)
        found = score(model, objective, rows, index, *how, world=world)
        if not math.isfinite(found.nll):
            raise UserError("the likelihood is not finite")
        return ScoredSet(
            **vars(describe(found, rows, objective, saved.lengths(), settings.seed)),
            split=split,
            data_hash=rows.store.key,
            packing=settings.packing,
            paper=paper.ZERO_SHOT.get(name),
        )

    for name in names:
        try:
            result = replace(result, sets={**result.sets, name: one(name)})
        except UserError as error:
            skipped[name] = str(error)
            continue
        scored.append(name)
        keep(replace(result, skipped=skipped))
    if not scored:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise UserError(f"none of the sets could be scored ({reasons})")
    missing = {name: why for name, why in skipped.items() if name not in result.sets}
    return replace(result, skipped=missing)


def split_of(config: DataConfig, hub: bool) -> str:
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
