"""`adlm study reasoning`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import check
from adlm.reasoning.plan import ReasoningSettings
from adlm.studies import runner
from adlm.studies.reasoning import ReasoningStudy


def study_reasoning(
    task: str = "prosqa",
    methods: list[str] = ["no-cot", "cot", "pause", "icot", "coconut", "acot"],  # noqa: B006
    settings: ReasoningSettings = ReasoningSettings(),
    seeds: int = 2,
    tests: int = 500,
    exam: str = "",
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
        exam: Where test items come from: generated, files, or a folder; as in training by default.
        workers: Runs at a time.
        threads: Threads of each run; 0 = its share of the cores.
        peek: Run nothing, only write the result of the runs that are done.
        home: Folder of the runs; runs/study-reasoning-TASK by default.
        out: Result file; results/study-reasoning-TASK.json by default. A table (.md) and a plot
            (.png) are written beside it. Runs that are in it already, with the same settings, are
            not done again.
    """
    runner.check_seeds(seeds)
    check(tests >= 0, "--tests", tests, "0 (all) or more")
    check(len(methods) >= 1, "--methods", methods, "at least one method")
    folder = Path(home or f"runs/study-reasoning-{task}")
    result_file = Path(out or f"results/study-reasoning-{task}.json")
    made = ReasoningStudy(
        name=task,
        home=folder,
        task=task,
        methods=methods,
        settings=settings,
        seeds=seeds,
        tests=tests,
        exam=exam,
        before=result_file,
    )
    result = made.gather() if peek else made.run(workers, threads)
    runner.write(result, result_file)
