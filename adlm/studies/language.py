"""A study of language models: configurations at equal tokens, over seeds.

A finished run is one whose figures are in the study's folder, or in a result file, its own earlier
one or another study's, with the same configuration and seed: a study that others have published can
be gone on with, and no study does again what another has done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from adlm import device as devices
from adlm.config import Config, from_dict, to_dict
from adlm.data.corpus import open_vocab
from adlm.errors import UserError
from adlm.eval.likelihood import LikelihoodResult
from adlm.measure import step_rate
from adlm.models.cost import parameters, training_flops
from adlm.studies import worker
from adlm.studies.result import (
    MOST_LINES,
    RunFigures,
    StudyResult,
    StudyRow,
    differences,
    learning_curve,
)
from adlm.studies.runner import Cell, Study, StudySettings
from adlm.studies.worker import DRAWS, TEST_ROWS, VALID, VALID_ROWS
from adlm.train.log import read


@dataclass(frozen=True, kw_only=True)
class LanguageStudy(Study):
    """A question put to several configurations."""

    rows: dict[str, Config]
    seeds: dict[str, int]  # row -> number of seeds
    pairs: tuple[tuple[str, str], ...] = ()  # rows to be compared seed by seed
    shown: tuple[str, ...] = ()  # rows of the picture, at most six; the first six by default
    before: Path | None = None  # an earlier result file, whose runs are not done again
    share: tuple[Path, ...] = ()  # nor those of other studies' files
    tokens: int = 0  # training tokens of a row, where the rows were made for one number
    keep: bool = False  # the weights of runs
    module: ClassVar[str] = worker.__name__

    def cells(self) -> list[Cell]:
        return self.every_cell()

    def every_cell(self) -> list[Cell]:
        """Return all runs that the study may come to."""
        out = []
        for seed in range(max(self.seeds.values())):
            for row, config in self.rows.items():
                if seed < self.seeds[row]:
                    seeded = replace(config, train=replace(config.train, seed=seed))
                    label = "".join(c if c.isalnum() else "-" for c in row)
                    folder = self.home / f"{label}-seed{seed}"
                    out.append(Cell(row, seed, folder, [seeded, self.keep]))
        return out

    def found(self) -> dict[tuple[str, int], RunFigures]:
        known: dict[tuple[str, int], RunFigures] = {}
        for path in (*self.share, self.before):
            known |= earlier(path, self.rows) if path and path.is_file() else {}
        finished = [c for c in self.every_cell() if c.result.is_file()]
        return {**known, **{(c.row, c.seed): figures(c) for c in finished}}

    def seconds(self, row: str) -> float:
        """From a real step; a scored token costs about a third of a trained one."""
        config = self.rows[row]
        device = devices.pick(config.train.device)
        precision = devices.precision(config.train.precision, device)
        rate = step_rate(config, open_vocab(config.data), device, precision)
        train = config.train
        scored = train.steps // (train.eval_every or train.steps) * train.eval_rows
        scored += (TEST_ROWS + VALID_ROWS) * DRAWS
        return (tokens_of(config) + scored * config.data.length / 3) / rate

    def gather(self) -> StudyResult:
        found = self.found()
        first = next(iter(self.rows.values()))
        size = open_vocab(first.data).size
        rows = []
        for row, config in self.rows.items():
            runs = {seed: found[name, seed] for name, seed in sorted(found) if name == row}
            if runs:
                rows.append(over_seeds(row, config, size, runs))
        if not rows:
            raise self.none_done()
        names = [r.row for r in rows if not self.shown or r.row in self.shown]
        result = StudyResult(
            study=self.name,
            tokens=self.tokens,
            rows=rows,
            pairs=differences(rows, self.pairs),
            shown=names[:MOST_LINES],
        )
        device = devices.pick()
        return result.stamped(device, devices.precision(first.train.precision, device))


def make_study(
    name: str,
    rows: dict[str, Config],
    settings: StudySettings,
    pairs: tuple[tuple[str, str], ...] = (),
    shown: tuple[str, ...] = (),
) -> LanguageStudy:
    """Return the study that a command's settings ask for."""
    return LanguageStudy(
        name=name,
        home=Path(settings.home),
        only=settings.only or (),
        rows=rows,
        seeds=dict.fromkeys(rows, settings.seeds),
        pairs=pairs,
        shown=shown,
        before=Path(settings.out),
        share=shared(settings.share or ()),
        tokens=settings.tokens,
        keep=settings.keep,
    )


def shared(names: Sequence[str]) -> tuple[Path, ...]:
    """Return the result files of other studies, or raise UserError where one is not there."""
    for name in names:
        if not Path(name).is_file():
            raise UserError(f"--share {name} is not there: name result files of studies")
    return tuple(map(Path, names))


def tokens_of(config: Config) -> int:
    """Training tokens of a configuration."""
    return config.train.steps * config.train.batch * config.data.length


def over_seeds(row: str, config: Config, size: int, runs: dict[int, RunFigures]) -> StudyRow:
    """Return a row of the table; `size` is the vocabulary's."""
    ppl = [run.test_ppl for run in runs.values()]
    return StudyRow(
        row,
        parameters(config, size),
        tokens_of(config),
        tokens_of(config) * training_flops(config, size),
        list(runs),
        ppl,
        float(np.mean(ppl)),
        float(np.std(ppl, ddof=1)) if len(ppl) > 1 else None,
        float(np.mean([run.valid_ppl for run in runs.values()])),
        next(iter(runs.values())).exact,
        learning_curve(list(runs.values())),
        to_dict(config),
        list(runs.values()),
    )


def figures(cell: Cell) -> RunFigures:
    """Return the figures of a finished run, which must be of the cell's configuration."""
    test = LikelihoodResult.read(cell.result)
    cell.check(from_dict(test.config) == cell.given[0])
    valid = LikelihoodResult.read(cell.folder / VALID)
    log = [r for r in read(cell.folder / "metrics.jsonl") if "valid_nll" in r]
    return RunFigures(
        math.inf if test.ppl is None else test.ppl,
        test.se_ppl,
        math.inf if valid.ppl is None else valid.ppl,
        test.exact,
        test.data_hash,
        [int(r["tokens"]) for r in log],
        [r["valid_nll"] for r in log],
    )


def earlier(path: Path, rows: dict[str, Config]) -> dict[tuple[str, int], RunFigures]:
    """Return the figures of runs in a result file whose configuration is a row's of today."""
    stored = [(row, from_dict(row.config)) for row in StudyResult.read(path).rows]
    return {
        (name, seed): kept
        for name, own in rows.items()
        for row, config in stored
        if config == own
        for seed, kept in zip(row.seeds, row.runs, strict=False)
    }
