"""`adlm study anchoring`, `adlm study ablate` and `adlm study times`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import check
from adlm.studies import ablate as ablation
from adlm.studies import anchoring as comparison
from adlm.studies import times as search
from adlm.studies.runner import Study, gather, run, save

AXES = ["gamma", "tau", "rule", "positions", "every", "until", "bridge", "shared", "depth", "conv"]


def anchoring(
    tokens: int = 6_000_000,
    seeds: int = 3,
    only: list[str] | None = None,
    workers: int = 1,
    threads: int = 0,
    peek: bool = False,
    home: str = "runs/study-anchoring",
    out: str = "results/study-anchoring.json",
) -> None:
    """Train AR, A2R, MDLM, ADLM (with gamma and without) and plain models of equal parameters.

    Equal tokens on the default corpus (and MDLM at ADLM's FLOPs), over several seeds. Tells
    beforehand how long it takes; stopped at any moment, the same command goes on.

    Args:
        tokens: Training tokens of each run.
        seeds: Seeds of MDLM and ADLM; causal, published, thinned and gamma 0 rows have one fewer.
        only: Only these rows of the table, as a list: '[AR, MDLM, ADLM]'; all by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = comparison.rows(tokens, only or ())
    counts = comparison.seeds(list(rows), seeds)
    study = Study("anchoring", rows, counts, Path(home), comparison.PAIRS)
    save(study, gather(study) if peek else run(study, workers, threads), Path(out))


def ablate(
    axes: list[str] = AXES,
    tokens: int = 6_000_000,
    seeds: int = 1,
    workers: int = 1,
    threads: int = 0,
    peek: bool = False,
    home: str = "runs/study-ablate",
    out: str = "results/study-ablate.json",
) -> None:
    """Change one setting of a basic ADLM at a time.

    gamma, tau, rule, positions, bridge, shared (anchor head; what the recipe is made of), every and
    until (how much of the anchor loss it needs), depth, conv; beside a plain MDLM and one of the
    basic ADLM's parameters.

    Args:
        axes: Which settings, as a list: '[gamma, bridge]'; bridge=softmax takes only those rows of
            the axis that have the word.
        tokens: Training tokens of each run.
        seeds: Seeds of each row.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = ablation.rows(axes, tokens)
    study = Study("ablation", rows, dict.fromkeys(rows, seeds), Path(home))
    save(study, gather(study) if peek else run(study, workers, threads), Path(out))


def times(
    tokens: int = 1_500_000,
    seeds: int = 2,
    only: list[str] | None = None,
    workers: int = 1,
    threads: int = 0,
    peek: bool = False,
    home: str = "runs/study-times",
    out: str = "results/study-times.json",
) -> None:
    """Search how MDLM learns best: times, weights, masking, learning rates and batch.

    One setting of laptop-mdlm is changed at a time; choose by the validation PPL. Stopped at any
    moment, the same command goes on.

    Args:
        tokens: Training tokens of each run.
        seeds: Seeds of each row.
        only: Only these rows of the table, as a list; all by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = search.rows(tokens, only or ())
    study = Study("times", rows, dict.fromkeys(rows, seeds), Path(home), shown=search.SHOWN)
    save(study, gather(study) if peek else run(study, workers, threads), Path(out))
