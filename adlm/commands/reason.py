"""`adlm reason train`, `reason eval`, `reason show` and `adlm study reasoning`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from adlm.config import check, to_dict
from adlm.progress import Bar
from adlm.reasoning import train as trainer
from adlm.reasoning.data import Items
from adlm.reasoning.plan import Plan, Settings, load
from adlm.reasoning.score import Outcome, summary
from adlm.reasoning.tasks.base import Task
from adlm.results import stamped, write_json, write_text
from adlm.studies import reasoning as comparison

Split = Literal["train", "valid", "test"]


def train(
    task: str, method: str, settings: Settings = Settings(), out: str = "", resume: bool = False
) -> int:
    """Train a model on a task by a method; the plan is printed first.

    Args:
        task: prosqa, prontoqa, gsm8k, arithmetic, or one of yours.
        method: no-cot, cot, pause, icot, coconut, acot, or one of yours.
        settings: Data, model and stages.
        out: Folder of the run; runs/reason-TASK-METHOD by default.
        resume: Go on with a run that was stopped.
    """
    folder = Path(out or f"runs/reason-{task}-{method}")
    return trainer.train(Plan(task, method, settings), folder, resume)


def items_of(
    plan: Plan,
    task: str,
    split: str,
    limit: int,
    data: str | None,
    data_dir: str | None,
    skip_bad: bool,
) -> tuple[Task, Items]:
    """What a trained model is given to solve: by default items like those it was trained on."""
    own = replace(plan, task=task) if task != plan.task else plan
    s = own.settings
    knobs = s.knobs if own is plan else {}
    given = replace(
        s,
        data=data or s.data,
        data_dir=data_dir or s.data_dir,
        skip_bad=skip_bad or s.skip_bad,
        knobs=knobs,
    )
    kind = replace(own, settings=given).make_task()
    count = limit or (500 if given.data == "generated" else 0)
    return kind, load(kind, given, split, count)


def evaluate(
    checkpoint: str,
    task: str,
    split: Split = "test",
    data: str | None = None,
    data_dir: str | None = None,
    skip_bad: bool = False,
    limit: int = 0,
    batch: int = 64,
    device: str = "auto",
    out: str | None = None,
) -> None:
    """Solve a task's items: exact match with its interval, sound traces, tokens, anchor recall.

    Args:
        checkpoint: A run of `adlm reason train`, or its checkpoint.
        task: The task, by default with the knobs that the model was trained with.
        split: Part of the data.
        data: generated, files, or a folder; as in training by default.
        data_dir: Folder of the public files; the variable ADLM_DATA by default.
        skip_bad: Leave bad records of a file out.
        limit: Items; 0 = all of a file's, or 500 generated ones.
        batch: Items that are solved at once.
        device: auto, cpu, cuda or cuda:N.
        out: Result file; eval/reason-TASK-SPLIT.json of the run by default.
    """
    check(limit >= 0, "--limit", limit, "0 (all) or more")
    check(batch >= 1, "--batch", batch, "at least 1")
    solver, plan, state = trainer.load_solver(checkpoint, device)
    kind, found = items_of(plan, task, split, limit, data, data_dir, skip_bad)
    solver = replace(solver, task=kind)
    with Bar("solving", len(found.items), "items") as bar:
        outcomes = solver.solve(found.items, batch, bar.update)
    result: dict[str, Any] = {
        "command": "reason eval",
        "task": task,
        "method": plan.method,
        "split": split,
        **summary(outcomes),
        "source": found.source,
        "skipped": found.skipped,
        "data_hash": found.hash,
        "stage": to_dict(solver.stage),
        "plan": to_dict(plan),
        "training_data_hash": state["data"],
        "steps": state["step"],
        "checkpoint_hash": state["checkpoint"].hash,
    }
    print(sentence(result))
    source = "" if found.source.startswith("generated") else "-files"
    name = f"reason-{result['task']}-{split}{source}"
    path = Path(out) if out else state["checkpoint"].run / "eval" / f"{name}.json"
    write_json(path, stamped(result, solver.device, solver.precision))
    print(f"written to {path}")


def sentence(result: dict[str, Any]) -> str:
    """A result in two lines."""
    low, high = result["interval"]
    text = (
        f"{result['method']} on {result['task']}, {result['split']}: {result['accuracy']:.1%} "
        f"of {result['items']} right (95 % interval {low:.1%} to {high:.1%})\n"
        f"{result['tokens']:.1f} tokens generated and {result['slots']:.1f} slots an item"
    )
    if result["sound_traces"] is not None:
        text += f"; {result['sound_traces']:.1%} of the traces are sound"
    if result["anchor_recall"] is not None:
        text += f"; {result['anchor_recall']:.1%} of the anchors predicted"
    if result["too_long"]:
        text += f"; {result['too_long']} questions were too long and count as wrong"
    return text


def show(
    checkpoint: str,
    task: str,
    split: Split = "test",
    data: str | None = None,
    data_dir: str | None = None,
    n: int = 3,
    device: str = "auto",
) -> None:
    """Problems with what the model made of them: anchors, trace and answer in colour.

    Args:
        checkpoint: A run of `adlm reason train`, or its checkpoint.
        task: The task, by default with the knobs that the model was trained with.
        split: Part of the data.
        data: generated, files, or a folder; as in training by default.
        data_dir: Folder of the public files; the variable ADLM_DATA by default.
        n: How many problems.
        device: auto, cpu, cuda or cuda:N.
    """
    check(n >= 1, "--n", n, "at least 1")
    solver, plan, _ = trainer.load_solver(checkpoint, device)
    console = Console(highlight=False)
    kind, found = items_of(plan, task, split, n, data, data_dir, False)
    for outcome in replace(solver, task=kind).solve(found.items):
        console.print(coloured(outcome))


def coloured(outcome: Outcome) -> Text:
    """One problem for the terminal."""
    text = Text()
    text.append("question  ", "bold").append(outcome.item.question + "\n")
    if outcome.slots:
        text.append("slots     ", "bold").append(" ".join(outcome.slots) + "\n", "black on yellow")
    if outcome.trace:
        sound = "green" if outcome.sound else "red"
        text.append("trace     ", "bold").append(outcome.trace + "\n", sound)
    colour = "bold green" if outcome.right else "bold red"
    text.append("answer    ", "bold").append(outcome.answer or "(none)", colour)
    text.append("" if outcome.right else f"   (right: {outcome.item.answer})").append("\n")
    return text


def study(
    task: str = "prosqa",
    methods: list[str] = ["no-cot", "cot", "pause", "icot", "coconut", "acot"],  # noqa: B006
    settings: Settings = Settings(),
    seeds: int = 2,
    tests: int = 500,
    workers: int = 1,
    threads: int = 0,
    peek: bool = False,
    home: str = "",
    out: str = "",
) -> None:
    """Train every method on one task over seeds, at equal epochs; a table and a plot.

    Tells beforehand how long it takes; stopped at any moment, the same command goes on.

    Args:
        task: prosqa, prontoqa, gsm8k, arithmetic, or one of yours.
        methods: Which methods, as a list: '[cot, acot]'; acot+feedback takes an option along.
        settings: Data, model and stages, the same for all.
        seeds: Seeds of each method; the test items are the same.
        tests: Test items; 0 = all of a file's.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs; runs/study-reasoning-TASK by default.
        out: Result file; results/study-reasoning-TASK.json by default. A table (.md) and a plot
            (.png) are written beside it.
    """
    check(seeds >= 1, "--seeds", seeds, "at least 1")
    check(tests >= 0, "--tests", tests, "0 (all) or more")
    folder = Path(home or f"runs/study-reasoning-{task}")
    made = comparison.Study(task, methods, settings, seeds, tests, folder)
    result = made.gather() if peek else made.run(workers, threads)
    path = Path(out or f"results/study-reasoning-{task}.json")
    write_json(path, result)
    table = comparison.table(result)
    write_text(path.with_suffix(".md"), table + "\n")
    comparison.plot(result, path.with_suffix(".png"))
    print(table)
    print(f"written to {path}, {path.with_suffix('.md')} and {path.with_suffix('.png')}")
