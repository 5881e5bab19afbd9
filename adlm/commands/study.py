"""`adlm study anchoring`, `adlm study ablate` and `adlm study times`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import check
from adlm.studies import ablate as ablation
from adlm.studies import anchoring as comparison
from adlm.studies import times as search
from adlm.studies.runner import Study, gather, run, save

AXES = [
    "gamma",
    "tau",
    "rule",
    "positions",
    "until",
    "every",
    "rare",
    "bridge",
    "rate",
    "shared",
    "depth",
]


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
    """Train AR, A2R, MDLM, ADLM and deep supervision at equal tokens, over several seeds.

    Beside them MDLM at ADLM's parameters and at the training FLOPs of the others. Tells beforehand
    how long it takes; stopped at any moment, the same command goes on.

    Args:
        tokens: Training tokens of each run.
        seeds: Seeds of each row.
        only: Run only these rows of the table, as a list: '[AR, MDLM, ADLM]'; all by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it. Runs that are in
            it already, with the same settings, are not done again.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = comparison.rows(tokens)
    study = Study(
        "anchoring",
        rows,
        dict.fromkeys(rows, seeds),
        Path(home),
        pairs=comparison.PAIRS,
        shown=comparison.SHOWN,
        before=Path(out),
        budget=tokens,
        only=only or (),
    )
    save(study, gather(study) if peek else run(study, workers, threads), Path(out))


def ablate(
    axes: list[str] = AXES,
    tokens: int = 1_500_000,
    seeds: int = 1,
    workers: int = 1,
    threads: int = 0,
    peek: bool = False,
    home: str = "runs/study-ablate",
    out: str = "results/study-ablate.json",
) -> None:
    """Change one setting of laptop-adlm, the paper's system, at a time.

    gamma, tau, rule, positions, until, every and rare (the anchor loss), bridge, rate (of the
    bridge), shared (anchor head) and depth (the network); beside a plain MDLM and a larger one.

    Args:
        axes: Which settings, as a list: '[gamma, bridge]'; bridge=softmax takes only those rows of
            the axis that have the word.
        tokens: Training tokens of each run.
        seeds: Seeds of each row.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it. Runs that are in
            it already, with the same settings, are not done again.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = ablation.rows(axes, tokens)
    study = Study(
        "ablation", rows, dict.fromkeys(rows, seeds), Path(home), before=Path(out), budget=tokens
    )
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
        only: Run only these rows of the table, as a list; all by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it. Runs that are in
            it already, with the same settings, are not done again.
    """
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    rows = search.rows(tokens)
    study = Study(
        "times",
        rows,
        dict.fromkeys(rows, seeds),
        Path(home),
        shown=search.SHOWN,
        before=Path(out),
        budget=tokens,
        only=only or (),
    )
    save(study, gather(study) if peek else run(study, workers, threads), Path(out))
