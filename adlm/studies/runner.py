"""Run the cells of a study, rows x seeds; every finished run is kept and never done again.

What a run is, a language model or a model that reasons, is said by two subclasses of `Study`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from adlm.config import check
from adlm.errors import UserError, nearest
from adlm.locks import hold
from adlm.progress import console
from adlm.results import Result, write_text
from adlm.studies import pool
from adlm.studies.pool import Job
from adlm.viz.page import markdown
from adlm.viz.plots import require

MOST_SEEDS = 1000  # of a row


@dataclass(frozen=True)
class StudySettings:
    """What a study of language models is told.

    Attributes:
        tokens: Training tokens of each run.
        seeds: Seeds of each row.
        only: Run only these rows of the table, as a list: '[AR, MDLM, ADLM]'; all by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        keep: Keep the weights of finished runs in their folders, not the figures alone.
        share: Result files of other studies, as a list: of those, runs with a row's configuration
            and seed are not done again.
        home: Folder of the runs.
        out: Result file; a table (.md) and a plot (.png) are written beside it. Runs that are in
            it already, with the same settings, are not done again.
    """

    tokens: int = 1_500_000
    seeds: int = 1
    only: list[str] | None = None
    workers: int = 1
    threads: int = 0
    peek: bool = False
    keep: bool = False
    share: list[str] | None = None
    home: str = "runs/study"
    out: str = "results/study.json"

    def __post_init__(self) -> None:
        check(self.tokens >= 1, "--tokens", self.tokens, "at least 1")
        check_seeds(self.seeds)

    @classmethod
    def of(cls, name: str, tokens: int = 1_500_000, seeds: int = 1) -> StudySettings:
        """Return the defaults of the study with this name."""
        home, out = f"runs/study-{name}", f"results/study-{name}.json"
        return cls(tokens=tokens, seeds=seeds, home=home, out=out)


def check_seeds(seeds: int) -> None:
    """Raise UserError unless it is a number of seeds that a study may have."""
    check(1 <= seeds <= MOST_SEEDS, "--seeds", seeds, f"from 1 to {MOST_SEEDS:,}")


@dataclass(frozen=True)
class Cell:
    """One run of a study: a row of its table, at one seed."""

    row: str
    seed: int
    folder: Path
    given: list[object]  # what the run's process is given, as in `Job`

    @property
    def result(self) -> Path:
        return self.folder / "result.json"  # written last

    def check(self, same: bool) -> None:
        """Raise UserError unless the run in the folder is the same."""
        if not same:
            raise UserError(f"{self.folder} holds a run with other settings: take another --home")


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """A question put to several rows, each over some seeds."""

    name: str
    home: Path
    only: Sequence[str] = ()  # rows to be run; all by default
    module: ClassVar[str]  # whose `work(folder, *given)` does one run

    @abstractmethod
    def cells(self) -> list[Cell]:
        """Return all runs, the first seed of every row before the second of any."""

    @abstractmethod
    def found(self) -> dict[tuple[str, int], Any]:
        """Return the figures of all finished runs, by row and seed."""

    @abstractmethod
    def seconds(self, row: str) -> float:
        """Return how long a run of the row will take, from real steps."""

    @abstractmethod
    def gather(self) -> Result:
        """Return all finished runs as one result."""

    def left(self) -> list[Cell]:
        """Return the runs still to be done."""
        cells, found = self.cells(), self.found()
        known = {c.row for c in cells}
        for name in self.only:
            if name not in known:
                raise UserError(f"the study has no row '{name}'{nearest(name, known)}")
        wanted = self.only or known
        return [c for c in cells if c.row in wanted and (c.row, c.seed) not in found]

    def run(self, workers: int, threads: int = 0) -> Any:
        """Do what is left, `workers` runs at a time, then gather everything."""
        threads = pool.shares(workers, threads)
        require()
        require("scipy", "an interval over seeds")
        with hold(self.home):
            left = self.left()
            console.print(f"{self.name}: {len(left)} runs to do, {len(self.found())} done")
            if left:
                jobs = self.jobs(left, threads)
                pool.foretell(jobs, workers)
                pool.work(jobs, workers, threads)
        return self.gather()

    def jobs(self, cells: list[Cell], threads: int) -> list[Job]:
        """The runs as processes, with the seconds that each is expected to take."""
        kept = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            seconds = {row: self.seconds(row) for row in dict.fromkeys(c.row for c in cells)}
        finally:
            torch.set_num_threads(kept)
        return [
            Job(f"{c.row}, seed {c.seed}", c.folder, self.module, c.given, seconds[c.row])
            for c in cells
        ]

    def none_done(self) -> UserError:
        return UserError(f"no run of the study in {self.home} is done yet")


def carry_out(study: Study, settings: StudySettings) -> None:
    """Run the study, or gather what is done of it, and write its result."""
    result = study.gather() if settings.peek else study.run(settings.workers, settings.threads)
    write(result, Path(settings.out))


def write(result: Result, out: Path) -> None:
    """Write a study's JSON, and its table and plot beside it; print the table."""
    result.save(out)
    shown = result.section(out.stem)
    write_text(out.with_suffix(".md"), markdown(shown) + "\n")
    out.with_suffix(".png").write_bytes(shown.plots[0][1])
    print(shown.text())
    print(f"written to {out}, {out.with_suffix('.md')} and {out.with_suffix('.png')}")
