"""`eval efficiency`: what generation costs, and what quality it buys; each case in its process.

Wall-clock, tokens a second, network passes, FLOPs and peak memory for a grid of steps, lengths and
batch sizes; AR and A2R have one setting of steps, one pass a token, with a KV cache.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal

import numpy as np

from adlm.config import Config, check, to_dict
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.eval.base import Computing
from adlm.eval.efficiency_result import EfficiencyResult, RealTexts
from adlm.eval.generation_cost import EfficiencyCase, in_process, is_causal
from adlm.eval.judge import SMALL, Judge
from adlm.eval.mauve import FEWEST, mauve
from adlm.eval.texts import describe, references
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.progress import console, duration
from adlm.samplers.choice import in_blocks, serves

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
                            out += [EfficiencyCase(*at, *same, *way, self.threads) for way in ways]
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


class Remainder:
    """How long the rest of a grid will take: writing goes by passes, the rest by texts.

    Example:
        >>> case = lambda steps: EfficiencyCase("", None, steps, 64, 8, 10, 1.0, 0, "cpu", "fp32")
        >>> todo = Remainder([case(8), case(32)])
        >>> todo.end(case(8), wrote=4.0, took=5.0)
        >>> todo.left()
        17.0
    """

    def __init__(self, cases: Sequence[EfficiencyCase]) -> None:
        self.cases = list(cases)
        self.passes = self.texts = self.wrote = self.other = 0.0

    def end(self, case: EfficiencyCase, wrote: float, took: float) -> None:
        """Take note of a finished case: seconds of writing, and in all."""
        self.cases.remove(case)
        self.passes += passes_of(case)
        self.texts += case.texts
        self.wrote += wrote
        self.other += took - wrote

    def left(self) -> float:
        """Seconds until the last case is done."""
        passes, texts = sum(map(passes_of, self.cases)), sum(case.texts for case in self.cases)
        return self.wrote * passes / self.passes + self.other * texts / self.texts


def passes_of(case: EfficiencyCase) -> int:
    """How many tokens pass through the network in a case, at most."""
    return case.texts * case.length * case.passes


def measure(
    runs: list[str],
    settings: EfficiencySettings = EfficiencySettings(),
    keep: Callable[[EfficiencyResult], None] = lambda _: None,
    earlier: EfficiencyResult | None = None,
) -> EfficiencyResult:
    """Measure the cases that `earlier` does not have; `keep` gets what there is after each."""
    device, precision = settings.place()
    judge = None if settings.judge == "none" else Judge(settings.judge, device)
    saved = {run: checkpoint.load(run) for run in runs}
    grid = settings.cases(runs, [saved[run].config for run in runs])
    result = EfficiencyResult(
        checkpoints={run: s.hash for run, s in saved.items()},
        configs={run: to_dict(s.config) for run, s in saved.items()},
        judge=judge.about if judge else None,
    ).stamped(device, precision)
    done = {c: known for c in grid if earlier and (known := earlier.known(c, result))}
    if earlier and done:
        result = replace(result, real=earlier.real)
    todo = Remainder([case for case in dict.fromkeys(grid) if case not in done])
    clouds: dict[str, np.ndarray | None] = {}  # run -> what the judge sees in real texts
    for number_, case in enumerate(grid, 1):
        if case in done:
            continue
        began = time.monotonic()
        found, written = in_process(case)
        found = replace(found, entropy=describe(written).entropy.mean)
        if judge:
            run, scored = case.checkpoint, judge.score(written.texts)
            if run not in clouds:
                clouds[run], real = seen_in_real(judge, saved[run], case)
                result = replace(result, real=result.real or real)
            cloud = clouds[run]
            near = None if cloud is None else mauve(scored.hidden, cloud, SEEDS).mean
            found = replace(found, generative_ppl=scored.ppl, mauve=near)
        done[case] = found
        wrote = found.seconds_per_text * case.texts
        todo.end(case, wrote, time.monotonic() - began)
        rest = f"; about {duration(todo.left())} left" if todo.cases else ""
        console.print(f"{number_} of {len(grid)}: {found}{rest}", soft_wrap=True)
        keep(replace(result, cases=[done[c] for c in grid if c in done]))
    return replace(result, cases=[done[c] for c in grid])


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
