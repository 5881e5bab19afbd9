"""What is a base worth? Fine-tuning against from scratch, and AR -> MDLM against MDLM.

    1. MDLM learns the default corpus, then goes on with abstracts; another learns the abstracts
       alone, for as many tokens of them, with the same tokenizer.
    2. AR learns the default corpus and becomes MDLM, at once or with annealed attention; another
       MDLM learns the corpus for as many FLOPs as AR and its adaptation took together.

One seed, one run after the other; a run that is done is not done again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from adlm.config import BaseConfig, Config, check, to_dict
from adlm.eval.likelihood import DataChoice, LikelihoodResult, LikelihoodSettings, measure
from adlm.models import checkpoint
from adlm.models.adapt import based, open_base
from adlm.models.cost import training_flops
from adlm.progress import console
from adlm.recipes import recipe
from adlm.registry import register
from adlm.results import Json, Result
from adlm.train.run import stored_config, train
from adlm.viz.page import Section
from adlm.viz.table import bounded

DRAWS, ROWS = 4, 1024  # of the scored split
MDLM, AR = "MDLM", "AR"
TUNED, FRESH = "MDLM, then the abstracts", "the abstracts alone"
AT_ONCE, ANNEALED = "AR, then MDLM at once", "AR, then MDLM annealed"
LONGER = "MDLM, as many FLOPs"
ABSTRACTS = (TUNED, FRESH)


@dataclass(frozen=True)
class FinetuneSettings:
    """What the study is told.

    Attributes:
        steps: Steps of MDLM, of AR and on the abstracts; AR's adaptation has half as many.
        data: The abstracts: a named set, a file or a folder.
        dir: Folder that holds the named set's files; the variable ADLM_DATA by default.
        split: The part of the abstracts that is scored; no setting is chosen by it.
        seed: Seed of all runs.
        home: Folder of the runs.
        out: Result file.
    """

    steps: int = 300
    data: str = "scitldr"
    dir: str | None = None
    split: Literal["valid", "test"] = "valid"
    seed: int = 0
    home: str = "runs/study-finetune"
    out: str = "results/finetune.json"

    def __post_init__(self) -> None:
        check(self.steps >= 2, "--steps", self.steps, "at least 2")


@dataclass(frozen=True)
class FinetuneRow:
    """One run, with what its base cost before it."""

    row: str
    base: str | None
    data: str
    split: str
    steps: int
    tokens: int
    flops: float  # of this run
    total_flops: float  # with its base's
    ppl: float
    se_ppl: float | None
    bits_per_byte: float
    exact: bool
    config: Json = field(default_factory=dict)  # as `config.to_dict` writes it


@register("result", "study finetune")
@dataclass(frozen=True, kw_only=True)
class FinetuneResult(Result):
    """All runs of the study."""

    command: ClassVar[str] = "study finetune"
    seed: int
    rows: list[FinetuneRow]
    untuned: float | None = None  # PPL of the base on the abstracts before it sees any
    notes: list[str] = field(default_factory=list)

    def section(self, name: str) -> Section:
        header = ["model", "scored on", "steps", "TFLOP with its base", "PPL", "bits a byte"]
        rows = [
            [
                r.row,
                f"{r.data} ({r.split})",
                f"{r.steps:,}",
                f"{r.total_flops / 1e12:.1f}",
                bounded(r.ppl, r.exact, r.se_ppl),
                f"{r.bits_per_byte:.3f}",
            ]
            for r in self.rows
        ]
        return Section("Study: starting from a base", header, rows, self.notes)


def study(settings: FinetuneSettings) -> FinetuneResult | int:
    """Do what is left of the runs, and gather all; an exit code where one was stopped."""
    rows: dict[str, FinetuneRow] = {}
    for name, make in plan(settings, rows).items():
        made = make()
        home = folder(settings, name)
        console.print(f"{name}: {made.train.steps:,} steps", soft_wrap=True)
        if code := train(made, home, resume=True):
            return code
        rows[name] = figures(name, settings, made, rows)
    untuned = scored(settings, MDLM, on_abstracts=True)
    result = FinetuneResult(
        seed=settings.seed,
        rows=list(rows.values()),
        untuned=untuned.ppl,
        notes=notes(rows, untuned.ppl or math.inf),
    )
    return result.stamped(untuned.device, untuned.precision)


def plan(
    settings: FinetuneSettings, rows: dict[str, FinetuneRow]
) -> dict[str, Callable[[], Config]]:
    """Row -> its configuration, made when the rows before it are done."""
    steps = settings.steps

    def plain(name: str) -> Config:
        return lasting(recipe(name), settings, steps)

    def abstracts(config: Config) -> Config:
        data = replace(config.data, name=settings.data, dir=settings.dir)
        return replace(config, data=data)

    def on(name: str, config: Config, base: BaseConfig = BaseConfig()) -> Config:
        found = open_base(str(folder(settings, name)))
        return based(replace(config, base=base), found)

    def fresh() -> Config:
        config, words = abstracts(plain("laptop-mdlm")), tokenizer(settings)
        return replace(config, data=replace(config.data, tokenizer=words))

    def adapted(anneal: float) -> Config:
        half = lasting(recipe("laptop-mdlm"), settings, max(1, steps // 2))
        return on(AR, half, BaseConfig(anneal=anneal))

    def longer() -> Config:
        wanted = rows[AT_ONCE].total_flops / rows[MDLM].flops
        return lasting(recipe("laptop-mdlm"), settings, round(wanted * steps))

    return {
        MDLM: lambda: plain("laptop-mdlm"),
        TUNED: lambda: on(MDLM, abstracts(plain("laptop-mdlm"))),
        FRESH: fresh,
        AR: lambda: plain("laptop-ar"),
        AT_ONCE: lambda: adapted(0.0),
        ANNEALED: lambda: adapted(0.5),
        LONGER: longer,
    }


def lasting(config: Config, settings: FinetuneSettings, steps: int) -> Config:
    """A recipe for so many steps, saved at its end."""
    every = max(1, steps // 4)
    return replace(
        config,
        train=replace(
            config.train, steps=steps, seed=settings.seed, eval_every=every, save_every=every
        ),
    )


def folder(settings: FinetuneSettings, name: str) -> Path:
    """The folder of a row's run."""
    label = "".join(c if c.isalnum() else "-" for c in name)
    return Path(settings.home).expanduser() / label


def tokenizer(settings: FinetuneSettings) -> str:
    """The file of the first run's tokenizer, as data.tokenizer names it."""
    return str(checkpoint.find(folder(settings, MDLM)) / "tokenizer.json")


def scored(settings: FinetuneSettings, name: str, on_abstracts: bool) -> LikelihoodResult:
    """The likelihood of a row's own text, or of the abstracts, under its checkpoint."""
    saved = checkpoint.load(folder(settings, name))
    how = LikelihoodSettings(limit=ROWS, draws=DRAWS)
    if on_abstracts:
        chosen = DataChoice(name=settings.data, dir=settings.dir)
        how = replace(how, split=settings.split, data=chosen)
    return measure(saved, how)


def figures(
    name: str, settings: FinetuneSettings, config: Config, rows: dict[str, FinetuneRow]
) -> FinetuneRow:
    """What is kept of a run."""
    found = scored(settings, name, on_abstracts=name in ABSTRACTS)
    base = {TUNED: MDLM, AT_ONCE: AR, ANNEALED: AR}.get(name)
    size = checkpoint.load(folder(settings, name)).vocab.size
    tokens = config.train.steps * config.train.batch * config.data.length
    flops = tokens * training_flops(config, size)
    before = rows[base].total_flops if base else 0.0
    return FinetuneRow(
        row=name,
        base=base,
        data=Path(found.data).name,
        split=found.split,
        steps=stored_config(folder(settings, name)).train.steps,
        tokens=tokens,
        flops=flops,
        total_flops=flops + before,
        ppl=found.ppl or math.inf,
        se_ppl=found.se_ppl,
        bits_per_byte=found.bits_per_byte,
        exact=found.exact,
        config=to_dict(config),
    )


def notes(rows: dict[str, FinetuneRow], untuned: float) -> list[str]:
    """The two answers in words."""
    tuned, fresh, best = rows[TUNED], rows[FRESH], rows[LONGER]
    gain = 1 - tuned.ppl / fresh.ppl
    away = {row: rows[row].ppl - best.ppl for row in (AT_ONCE, ANNEALED)}
    each = ", ".join(f"{row}: {d:+.1f} PPL" for row, d in away.items())
    return [
        f"At equal tokens of {tuned.data} the base lowers the perplexity by {gain:.0%}; before "
        f"any of them it has {untuned:.1f}.",
        f"Against MDLM from scratch for as many FLOPs in all: {each}.",
        "One seed; ± is one standard error over documents.",
    ]
