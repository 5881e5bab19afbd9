"""Methods of reasoning on one task, over seeds, at equal epochs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from adlm import device as devices
from adlm.config import to_dict
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.run import ReasoningRun, exam_items, measure
from adlm.reasoning.score import wilson
from adlm.reasoning.train import step_seconds
from adlm.registry import register
from adlm.results import Json, Result
from adlm.studies.runner import Cell, Study
from adlm.values import read_object
from adlm.viz.page import Section
from adlm.viz.plots import Bars, bars
from adlm.viz.table import spread


@dataclass(frozen=True)
class ReasoningRow:
    """One method over its seeds."""

    method: str
    seeds: list[int]
    accuracy: list[float]  # in the order of seeds
    mean: float
    sd: float | None
    interval: tuple[float, float]  # over items; sd is over seeds
    items: int
    tokens: float
    slots: float
    sound_traces: float | None
    anchor_recall: float | None
    seconds: float
    training_tokens: int
    data_hash: str
    source: str
    plan: Json  # as `config.to_dict` writes it
    stages: list[float] = field(default_factory=list)  # accuracy on valid items after each

    def cells(self) -> list[str]:
        """Its line of the table, in per cent."""
        low, high = (100 * end for end in self.interval)
        error = None if self.sd is None else 100 * self.sd
        shares = ["" if v is None else f"{v:.1%}" for v in (self.sound_traces, self.anchor_recall)]
        return [
            self.method,
            f"{100 * self.mean:.1f}{spread(error, 1)}",
            f"{low:.1f} to {high:.1f}",
            f"{self.tokens:.1f}",
            f"{self.slots:.1f}",
            *shares,
        ]


HEADER = ["method", "accuracy (mean ± sd)", "95 % interval", "tokens", "slots"]
HEADER += ["sound traces", "anchors found"]


@register("result", "study reasoning")
@dataclass(frozen=True, kw_only=True)
class ReasoningStudyResult(Result):
    """All methods on one task."""

    command: ClassVar[str] = "study reasoning"
    study: str = "reasoning"
    task: str
    rows: list[ReasoningRow]
    runs: list[ReasoningRun] = field(default_factory=list)  # of which the rows are made

    def section(self, name: str) -> Section:
        """One line a method, and bars of their accuracy with the tokens that it costs."""
        first = self.rows[0]
        bars_of = Bars(
            [r.method for r in self.rows],
            [r.mean for r in self.rows],
            [r.interval[0] for r in self.rows],
            [r.interval[1] for r in self.rows],
            [f"{r.tokens + r.slots:.0f} tokens" for r in self.rows],
        )
        title = f"{self.task}: accuracy, and what is generated for it"
        several = len(first.seeds) > 1
        over = f"Mean ± sd over {len(first.seeds)} seeds" if several else "One seed"
        said = f"{over}, in per cent; test items: {first.source}."
        return Section(
            f"Reasoning: {self.task}",
            HEADER,
            [r.cells() for r in self.rows],
            [said, *self.staged()],
            plots=[(title, bars(title, bars_of))],
        )

    def staged(self) -> list[str]:
        """Say how accuracy went from stage to stage, of methods that have several."""
        told = [
            f"{r.method} {', '.join(f'{100 * a:.1f}' for a in r.stages)}"
            for r in self.rows
            if len(r.stages) > 1
        ]
        return [f"On valid items after each stage: {'; '.join(told)}."] if told else []


@dataclass(frozen=True, kw_only=True)
class ReasoningStudy(Study):
    """A task put to several methods."""

    task: str
    methods: list[str]  # a name, and after each + the name of an option to turn on
    settings: ReasoningSettings
    seeds: int
    tests: int
    exam: str = ""  # where test items come from; as in training by default
    before: Path | None = None  # an earlier result file, whose runs are not done again
    module: ClassVar[str] = __name__

    def plan(self, label: str, seed: int = 0) -> Plan:
        """Return what is trained for a method and seed."""
        name, *turned = label.split("+")
        options = {**self.settings.options, **{o: True for o in turned}}
        settings = replace(self.settings, options=options, seed=self.settings.seed + seed)
        return Plan(self.task, name, settings)

    def cells(self) -> list[Cell]:
        return [
            Cell(
                label,
                seed,
                self.home / f"{label}-seed{seed}",
                [self.plan(label, seed), self.tests, self.exam],
            )
            for seed in range(self.seeds)
            for label in self.methods
        ]

    def found(self) -> dict[tuple[str, int], ReasoningRun]:
        earlier = []
        if self.before and self.before.is_file():
            earlier = ReasoningStudyResult.read(self.before).runs
        known = {}
        for cell in self.cells():
            if cell.result.is_file():
                known[cell.row, cell.seed] = figures(cell)
            elif same := [r for r in earlier if given(r) == cell.given]:
                known[cell.row, cell.seed] = same[0]
        return known

    def left(self) -> list[Cell]:
        for label in self.methods:
            self.plan(label).stages()  # settings are checked before the first run
        exam_items(self.plan(self.methods[0]), self.tests, self.exam)
        return super().left()

    def seconds(self, row: str) -> float:
        return seconds(self.plan(row))

    def gather(self) -> ReasoningStudyResult:
        found = self.found()
        runs = {
            m: [found[m, s] for s in range(self.seeds) if (m, s) in found] for m in self.methods
        }
        rows = [over_seeds(label, some) for label, some in runs.items() if some]
        if not rows:
            raise self.none_done()
        device = devices.pick(self.settings.device)
        every = [run for some in runs.values() for run in some]
        result = ReasoningStudyResult(task=self.task, rows=rows, runs=every)
        return result.stamped(device, devices.precision(self.settings.precision, device))


def figures(cell: Cell) -> ReasoningRun:
    """Return the figures of a finished run, which must be of its plan."""
    run: ReasoningRun = read_object(cell.result, ReasoningRun)
    cell.check(given(run) == cell.given)
    return run


def given(run: ReasoningRun) -> list[object]:
    """Return what a run was given, as in `Cell`."""
    return [run.plan, run.tests, run.exam]


def over_seeds(label: str, runs: list[ReasoningRun]) -> ReasoningRow:
    """Return a method over its seeds, from the figures of its runs."""
    accuracy, first = [r.accuracy for r in runs], runs[0]
    middle = statistics.mean(accuracy)
    return ReasoningRow(
        method=label,
        seeds=[r.plan.settings.seed for r in runs],
        accuracy=accuracy,
        mean=middle,
        sd=statistics.stdev(accuracy) if len(accuracy) > 1 else None,
        interval=wilson(middle * first.items, first.items),  # all seeds solve the same items
        items=first.items,
        tokens=statistics.mean(r.tokens for r in runs),
        slots=statistics.mean(r.slots for r in runs),
        sound_traces=mean([r.sound_traces for r in runs]),
        anchor_recall=mean([r.anchor_recall for r in runs]),
        seconds=statistics.mean(r.seconds for r in runs),
        training_tokens=first.training_tokens,
        data_hash=first.data_hash,
        source=first.source,
        plan=to_dict(first.plan),
        stages=[statistics.mean(each) for each in zip(*(r.stages for r in runs), strict=False)],
    )


def mean(values: list[float | None]) -> float | None:
    """The mean of those that are there; None where none is."""
    known = [v for v in values if v is not None]
    return statistics.mean(known) if known else None


def seconds(plan: Plan) -> float:
    """Return how long a run will take, from a few real steps of its last stage."""
    small = replace(plan, settings=replace(plan.settings, items=4 * plan.settings.batch, valid=1))
    a_step = step_seconds(small)
    s = plan.settings
    count = s.items if s.data == "generated" else len(plan.items("train", s.items).items)
    return a_step * sum(stage.epochs for stage in plan.stages()) * count / s.batch


def work(folder: Path, plan: Plan, tests: int, exam: str) -> int:
    """One run: train (or resume), solve the test items, keep the figures."""
    return measure(plan, folder, tests, exam)
