"""`eval efficiency`: what generation costs, and what quality it buys; each case in its process.

Wall-clock, tokens a second, network passes, FLOPs and peak memory for a grid of steps, lengths and
batch sizes; AR and A2R have one setting of steps, one pass a token, with a KV cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from adlm.config import Config, check, from_dict, to_dict
from adlm.data.corpus import open_rows
from adlm.data.vocab import nominal_size
from adlm.errors import UserError
from adlm.eval.base import Computing
from adlm.eval.generation_cost import CaseCost, EfficiencyCase, in_process, is_causal
from adlm.eval.judge import SMALL, Judge
from adlm.eval.mauve import ENOUGH, FEWEST, mauve
from adlm.eval.texts import describe, references
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.models.cost import training_flops
from adlm.progress import console
from adlm.registry import register
from adlm.results import Result
from adlm.samplers.choice import in_blocks, serves
from adlm.viz.page import Section
from adlm.viz.plots import Line, curves, png
from adlm.viz.table import markdown_table, mib, number

SPEED = "tokens a second"
PANELS = {"generative PPL": "generative_ppl", "entropy of a text": "entropy", "MAUVE": "mauve"}
LOGARITHMIC = ("generative PPL",)
SEEDS = 2  # of MAUVE's k-means
SURE = ("confidence", "anchor-first")  # samplers with a threshold


@dataclass(frozen=True)
class EfficiencySettings(Computing):
    """The grid, and what is written in each case of it.

    Attributes:
        sampler: Sampler of the diffusion models.
        samplers: Several of them, as a list; a model is written by those that it has.
        steps: Denoising steps of the grid, as a list; '[8, 32, 128]' by default.
        lengths: Tokens of a text, as a list; the trained length by default.
        batches: Texts at once, as a list; '[1, 8]' by default.
        texts: Texts written in each case.
        caches: Caches of models of whole rows, as a list: '[none, prefix, dual, delayed]'.
        cache_every: Steps after which a cache is renewed.
        thresholds: Thresholds of confidence and anchor-first, as a list; 0 = none.
        anchor_everys: Steps between two passes of an anchor network, as a list.
        nucleus: Share of the probability that tokens are drawn from.
        judge: Judge of the texts: smollm2, a causal LM's folder or hub name, or none.
        threads: Threads of each case; 0 = all cores.
        seed: Seed.
    """

    sampler: str = "ancestral"
    samplers: list[str] | None = None
    steps: list[int] | None = None
    lengths: list[int] | None = None
    batches: list[int] | None = None
    texts: int = 32
    caches: list[Literal["none", "prefix", "dual", "delayed"]] | None = None
    cache_every: int = 16
    thresholds: list[float] | None = None
    anchor_everys: list[int] | None = None
    nucleus: float = 1.0
    judge: str = SMALL
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, values in (
            ("--steps", self.steps),
            ("--batches", self.batches),
            ("--anchor_everys", self.anchor_everys),
        ):
            good = values is None or (bool(values) and min(values) >= 1)
            check(good, name, values, "a list of numbers from 1 on")
        check(self.cache_every >= 1, "--cache_every", self.cache_every, "at least 1")
        if self.thresholds and not set(self.samplers or [self.sampler]) & set(SURE):
            raise UserError("--thresholds is for --sampler confidence and anchor-first")
        check(self.texts >= 2, "--texts", self.texts, "at least 2")
        super().__post_init__()

    def cases(self, runs: Sequence[str], configs: Sequence[Config]) -> list[EfficiencyCase]:
        """Return the grid; causal models have no steps to choose."""
        same = (self.texts, self.nucleus, self.seed, *self.place())
        out = []
        for run, config in zip(runs, configs, strict=True):
            causal = is_causal(config)
            for length in self.lengths or [config.data.length]:
                for batch in self.batches or [1, 8]:
                    for steps in [None] if causal else self.steps or [8, 32, 128]:
                        for sampler in [None] if causal else self.known(config):
                            at = (run, sampler, steps, length, batch)
                            ways = self.ways(config, sampler)
                            out += [EfficiencyCase(*at, *same, *way) for way in ways]
        return out

    def known(self, config: Config) -> list[str]:
        """The samplers that a checkpoint has; the one of --sampler in any case."""
        if self.samplers is None:
            return [self.sampler]
        return [name for name in self.samplers if serves(name, config)]

    def ways(self, config: Config, sampler: str | None) -> Iterator[tuple[str, int, float, int]]:
        """Yield (cache, every, threshold, K) of what a checkpoint has a choice of."""
        causal, whole = is_causal(config), not in_blocks(config)
        caches = self.caches if self.caches and whole and not causal else ["none"]
        thresholds = self.thresholds or [0.0] if sampler in SURE else [0.0]
        anchored = config.model.anchor_blocks and not causal
        for cache, threshold in itertools.product(caches, thresholds):
            for every in (self.anchor_everys if anchored else None) or [1]:
                yield cache, self.cache_every, threshold, every


@dataclass(frozen=True)
class RealTexts:
    """As many real texts of the test split, in a judge's eyes."""

    generative_ppl: float
    entropy: float | None


@register("result", "eval efficiency")
@dataclass(frozen=True, kw_only=True)
class EfficiencyResult(Result):
    """The grid with its costs."""

    command: ClassVar[str] = "eval efficiency"
    checkpoints: dict[str, str]  # run -> hash
    configs: dict[str, dict[str, object]] = field(default_factory=dict)
    judge: str | None = None
    real: RealTexts | None = None  # of the first run's data
    cases: list[CaseCost] = field(default_factory=list)

    def section(self, name: str) -> Section:
        plots = []
        if panels := self.panels(Path):
            said = "the plain reverse process has a ring; a dashed line is what real texts have"
            plots = [(said, png(panels, SPEED, "", log_x=True, log_y=LOGARITHMIC))]
        few = min((c.texts for c in self.cases if c.mauve is not None), default=ENOUGH)
        note = f"MAUVE of {few} texts a case is coarse: its authors ask for {ENOUGH}."
        notes = [note] if few < ENOUGH else []
        notes += [f"The judge is {self.judge}."] if self.judge else []
        return Section("What generation costs", *self.table(), notes + self.budgets(), plots=plots)

    def budgets(self) -> list[str]:
        """Say for how many tokens each model was to be trained, where they differ."""
        configs = {Path(run).name: from_dict(values) for run, values in self.configs.items()}
        tokens = {n: c.train.steps * c.train.batch * c.data.length for n, c in configs.items()}
        if len(set(tokens.values())) < 2:
            return []
        each = ", ".join(f"{name} {count / 1e6:.1f} M" for name, count in tokens.items())
        vocab = {name: nominal_size(c.data.tokenizer) for name, c in configs.items()}
        flops = [tokens[n] * training_flops(configs[n], size) for n, size in vocab.items() if size]
        if len(flops) == len(tokens) and max(flops) < 1.02 * min(flops):
            return [f"All were planned for the same training FLOPs, in training tokens: {each}."]
        return [
            f"The models were planned for different numbers of training tokens ({each}): compare "
            "the settings of one model, not models."
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the cases, a row each."""
        header = ["model", "steps", "L x batch", "ms a text", "passes", "GFLOP", "MiB"]
        far = any(c.mauve is not None for c in self.cases)
        header += ["gen. PPL", "entropy", *["MAUVE"] * far, "reverse process"]
        kinds = {c.checkpoint: c.objective for c in self.cases}
        alone = len(set(kinds.values())) == len(kinds)  # does an objective name the checkpoint?
        rows = [
            [
                f"{c.objective if alone else Path(c.checkpoint).name}, {c.sampler}{c.way}",
                "" if c.steps is None else str(c.steps),
                f"{c.length} x {c.batch}",
                f"{1000 * c.seconds_per_text:.1f}",
                f"{c.nfe:.1f}",
                f"{c.gflops_per_text:.2f}",
                mib(c.peak_memory_mib),
                number(c.generative_ppl),
                number(c.entropy),
                *[number(c.mauve)] * far,
                "yes" if c.exact else "",
            ]
            for c in self.cases
        ]
        return header, rows

    def text(self) -> str:
        return markdown_table(*self.table())

    def panels(self, short: Callable[[str], Path] | None = None) -> dict[str, list[Line]]:
        """What a judge found in all cases, each figure against tokens a second."""
        if self.judge is None:
            return {}
        return {
            title: self.lines(name, short)
            for title, name in PANELS.items()
            if self.cases and all(getattr(c, name) is not None for c in self.cases)
        }

    def lines(self, name: str, short: Callable[[str], Path] | None = None) -> list[Line]:
        """One figure against tokens a second, the points of each checkpoint; then real texts."""
        lines = []
        for run in self.checkpoints:
            mine = [c for c in self.cases if c.checkpoint == run]
            if not mine:
                continue
            label = short(run).name if short else f"{mine[0].objective}: {run}"
            x, y = ([c.tokens_per_s for c in mine], [getattr(c, name) for c in mine])
            lines.append(Line(label, x, y, ringed=[c.exact for c in mine]))
        if (level := getattr(self.real, name, None)) is not None:
            speeds = [c.tokens_per_s for c in self.cases]
            ends = [min(speeds), max(speeds)]
            lines.append(Line("real texts", ends, [level, level], dashed=True))
        return lines

    def draw(self, path: Path) -> None:
        """Draw quality against speed."""
        curves(path, self.panels(), SPEED, "", log_x=True, log_y=LOGARITHMIC)


def measure(
    runs: list[str],
    settings: EfficiencySettings = EfficiencySettings(),
    keep: Callable[[EfficiencyResult], None] = lambda _: None,
) -> EfficiencyResult:
    """Measure each case of the grid; `keep` gets what there is after each."""
    device, precision = settings.place()
    judge = None if settings.judge == "none" else Judge(settings.judge, device)
    saved = {run: checkpoint.load(run) for run in runs}
    grid = settings.cases(runs, [saved[run].config for run in runs])
    result = EfficiencyResult(
        checkpoints={run: s.hash for run, s in saved.items()},
        configs={run: to_dict(s.config) for run, s in saved.items()},
        judge=judge.about if judge else None,
    ).stamped(device, precision)
    clouds: dict[str, np.ndarray | None] = {}  # run -> what the judge sees in real texts
    for number_, case in enumerate(grid, 1):
        found, written = in_process(case, settings.threads)
        found = replace(found, entropy=describe(written).entropy.mean)
        if judge:
            run, scored = case.checkpoint, judge.score(written.texts)
            if run not in clouds:
                clouds[run], real = seen_in_real(judge, saved[run], case)
                result = replace(result, real=result.real or real)
            cloud = clouds[run]
            near = None if cloud is None else mauve(scored.hidden, cloud, SEEDS).mean
            found = replace(found, generative_ppl=scored.ppl, mauve=near)
        result = replace(result, cases=[*result.cases, found])
        console.print(f"{number_} of {len(grid)}: {found}")
        keep(result)
    return result


def seen_in_real(
    judge: Judge, saved: Checkpoint, case: EfficiencyCase
) -> tuple[np.ndarray | None, RealTexts | None]:
    """(texts, D) what the judge sees in as many real texts, and their figures; None: too few."""
    data = saved.config.data
    least = data.length if data.packing == "wrap" else 2
    if case.texts < FEWEST or not find_spec("mauve"):
        return None, None
    try:
        rows = open_rows(data, "test", saved.vocab)
        texts = references(rows, saved.vocab, case.texts, least, case.seed)
    except UserError:  # no such split, or not as many texts
        return None, None
    scored = judge.score(texts.texts)
    return scored.hidden, RealTexts(scored.ppl, describe(texts).entropy.mean)
