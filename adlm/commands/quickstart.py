"""`adlm quickstart`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from adlm.config import Config, check
from adlm.eval.first_page import page
from adlm.locks import hold
from adlm.progress import Bar, console
from adlm.results import write_json, write_text
from adlm.studies import pool
from adlm.studies import quickstart as study
from adlm.viz.plots import require

FAST_STEPS, FAST_ROWS = 100, 200


def start(
    out: str = "runs/quickstart",
    fast: bool = False,
    steps: int = 0,
    rows: int = 0,
    workers: int = 0,
) -> None:
    """Train five small models on the default corpus, compare them, and see them write.

    Trains at one budget, scores the test split, samples and infills with each, and writes one page,
    report.html. Stopped at any moment, the same command goes on where it was.

    Args:
        out: Folder for the runs, results.json and report.html.
        fast: A tenth of the training, with worse models.
        steps: Train for so many steps instead of the recipes' own.
        rows: Score at most so many rows of the test split; 0 = all.
        workers: Models that are trained at a time; 0 = as many as there are pairs of cores, at
            least two where there are two cores.
    """
    check(steps >= 0, "--steps", steps, "0 or more")
    check(rows >= 0, "--rows", rows, "0 or more")
    check(workers >= 0, "--workers", workers, "0 or more")
    require()
    home = Path(out) / "fast" if fast else Path(out)
    wanted = study.configs(steps or (FAST_STEPS if fast else 0))
    rows = rows or (FAST_ROWS if fast else 0)
    cores = os.cpu_count() or 1
    workers = workers or min(len(wanted), max(min(2, cores), cores // 2))
    began = time.monotonic()
    console.print(greeting(home, wanted, workers), soft_wrap=True)
    bar = Bar("quickstart", 100, "%", study.percent(home, wanted), foretell=True, settle=12)
    with hold(home), bar:
        pool.work(
            study.jobs(home, wanted, rows),
            workers,
            pool.shares(workers, 0),
            progress(home, wanted, bar),
        )
        bar.update(100)
    result = study.gather(home, wanted)
    write_json(home / "results.json", result)
    write_text(home / "report.html", page(result, home))
    console.print(table(result["rows"]))
    minutes = (time.monotonic() - began) / 60
    print(f"{minutes:.1f} minutes; written to {home / 'results.json'}")
    print(f"open {(home / 'report.html').resolve()}")


def greeting(home: Path, wanted: dict[str, Config], workers: int) -> str:
    """What is going to happen, or that it has happened."""
    have = {name: study.steps_done(home / name) for name in wanted}
    said = f"{len(wanted)} models, {workers} at a time, into {home}; Ctrl-C stops, the same command"
    said += " goes on"
    if all(have[n] >= config.train.steps for n, config in wanted.items()):
        said = f"the {len(wanted)} models in {home} are trained: nothing is trained again"
    longer = [n for n, config in wanted.items() if have[n] > config.train.steps]
    if longer:
        said += (
            f"\nkept as they are, with more steps: {', '.join(longer)} ({have[longer[0]]} steps)"
        )
    return said


def progress(home: Path, wanted: dict[str, Config], bar: Bar) -> Callable[[], None]:
    """What the pool calls while it waits."""

    def look() -> None:
        at = {name: study.steps_done(home / name) for name in wanted}
        running = [
            f"{name.removeprefix('laptop-')} {step}/{wanted[name].train.steps}"
            for name, step in at.items()
            if 0 < step < wanted[name].train.steps
        ]
        bar.update(study.percent(home, wanted), ", ".join(running))

    return look


def table(rows: dict[str, dict[str, Any]]) -> Table:
    """Test perplexities side by side."""
    made = Table(title="test split of the default corpus; ± is one standard error over documents")
    for column in ("recipe", "parameters", "test PPL", "bits a byte", "what it is"):
        made.add_column(column, justify="left" if column in ("recipe", "what it is") else "right")
    for name, found in rows.items():
        bound = "" if found["exact"] else "≤ "
        error = f" ± {found['se_ppl']:.1f}" if found["se_ppl"] is not None else ""
        made.add_row(
            name,
            f"{found['parameters']:,}",
            f"{bound}{found['ppl']:.1f}{error}",
            f"{bound}{found['bits_per_byte']:.3f}",
            found["quantity"],
        )
    return made
