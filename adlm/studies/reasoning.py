"""Methods of reasoning on one task, over seeds, at equal epochs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from adlm import device as devices
from adlm.config import from_dict, to_dict
from adlm.errors import UserError
from adlm.locks import hold
from adlm.progress import console
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.run import measure
from adlm.reasoning.score import wilson
from adlm.reasoning.train import step_seconds
from adlm.results import stamped
from adlm.studies import pool
from adlm.studies.pool import Job
from adlm.viz.plots import Bars, bars, require


@dataclass(frozen=True)
class Cell:
    """One run of the study."""

    label: str
    plan: Plan
    tests: int
    folder: Path

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def done(self) -> bool:
        """Has this very plan been run to its end?"""
        mine = (to_dict(self.plan), self.tests)
        return pool.finished(self.folder, lambda r: (r["plan"], r["tests"]) == mine)


@dataclass(frozen=True)
class Study:
    """A task put to several methods."""

    task: str
    methods: list[str]  # a name, and after each + the name of an option to turn on
    settings: ReasoningSettings
    seeds: int
    tests: int
    home: Path

    def cells(self) -> Iterator[Cell]:
        """All runs, the first seed of every method before the second of any."""
        for seed in range(self.seeds):
            for label in self.methods:
                name, *turned = label.split("+")
                options = {**self.settings.options, **{o: True for o in turned}}
                settings = replace(self.settings, options=options, seed=self.settings.seed + seed)
                folder = self.home / f"{label}-seed{seed}"
                yield Cell(label, Plan(self.task, name, settings), self.tests, folder)

    def run(self, workers: int, threads: int) -> dict[str, Any]:
        """Do what is left, then gather everything."""
        threads = pool.shares(workers, threads)
        require()
        cells = list(self.cells())
        for cell in cells:
            cell.plan.stages()  # settings are checked before the first run
        with hold(self.home):
            left = [c for c in cells if not c.done]
            console.print(f"{self.task}: {len(left)} runs to do, {len(cells) - len(left)} done")
            given = [[to_dict(c.plan), self.tests] for c in left]
            jobs = [
                Job(c.label, c.folder, __name__, g, seconds(c.plan, threads))
                for c, g in zip(left, given, strict=True)
            ]
            if jobs:
                pool.foretell(jobs, workers)
            pool.work(jobs, workers, threads)
        return self.gather()

    def gather(self) -> dict[str, Any]:
        """All finished runs as one result."""
        rows = []
        for label in self.methods:
            found = [
                json.loads(c.result.read_text(encoding="utf-8"))
                for c in self.cells()
                if c.label == label and c.done
            ]
            if found:
                rows.append(row(label, found))
        if not rows:
            raise UserError(f"no run of the study in {self.home} is done yet")
        device = devices.pick(self.settings.device)
        result = {"study": "reasoning", "task": self.task, "rows": rows}
        return stamped(result, device, devices.precision(self.settings.precision, device))


def row(label: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """A method over its seeds."""
    accuracy = [r["accuracy"] for r in found]
    middle, count = statistics.mean(accuracy), found[0]["items"]  # all seeds solve the same items

    def mean(key: str) -> float | None:
        values = [r[key] for r in found if r[key] is not None]
        return statistics.mean(values) if values else None

    return {
        "method": label,
        "seeds": [r["plan"]["settings"]["seed"] for r in found],
        "accuracy": accuracy,
        "mean": statistics.mean(accuracy),
        "sd": statistics.stdev(accuracy) if len(accuracy) > 1 else None,
        "interval": list(wilson(middle * count, count)),  # over items; sd is over seeds
        "items": count,
        **{k: mean(k) for k in ("tokens", "slots", "sound_traces", "anchor_recall", "seconds")},
        "training_tokens": found[0]["training_tokens"],
        "data_hash": found[0]["data_hash"],
        "source": found[0]["source"],
        "plan": found[0]["plan"],
    }


def seconds(plan: Plan, threads: int) -> float:
    """How long a run will take, from a few real steps of its last stage."""
    kept = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        small = replace(
            plan, settings=replace(plan.settings, items=4 * plan.settings.batch, valid=1)
        )
        a_step = step_seconds(small)
    finally:
        torch.set_num_threads(kept)
    s = plan.settings
    count = s.items if s.data == "generated" else len(plan.items("train", s.items).items)
    return a_step * sum(stage.epochs for stage in plan.stages()) * count / s.batch


def work(folder: str, values: dict[str, Any], tests: int) -> int:
    """One run: train (or resume), solve the test items, keep the figures."""
    plan = Plan(values["task"], values["method"], from_dict(values["settings"], ReasoningSettings))
    return measure(plan, Path(folder), tests)


def table(result: dict[str, Any]) -> str:
    """Markdown: one line a method."""
    head = "| method | accuracy (mean ± sd) | 95 % interval | tokens | slots | sound traces |"
    lines = [f"{head} anchors found |", "|---|---|---|---|---|---|---|"]
    for r in result["rows"]:
        sd = f" ± {100 * r['sd']:.1f}" if r["sd"] is not None else ""
        low, high = r["interval"]
        sound, anchors = (
            "" if r[k] is None else f"{r[k]:.1%}" for k in ("sound_traces", "anchor_recall")
        )
        lines.append(
            f"| {r['method']} | {100 * r['mean']:.1f}{sd} | {100 * low:.1f} to {100 * high:.1f} "
            f"| {r['tokens']:.1f} | {r['slots']:.1f} | {sound} | {anchors} |"
        )
    return "\n".join(lines)


def plot(result: dict[str, Any], path: Path) -> None:
    """Accuracy with its interval, and the tokens that it costs."""
    rows = result["rows"]
    made = Bars(
        [r["method"] for r in rows],
        [r["mean"] for r in rows],
        [r["interval"][0] for r in rows],
        [r["interval"][1] for r in rows],
        [f"{r['tokens'] + r['slots']:.0f} tokens" for r in rows],
    )
    bars(path, f"{result['task']}: accuracy, and what is generated for it", made)
