"""Train a plan and measure it: what a study's worker does. The figures stay, not the weights."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from adlm.config import to_dict
from adlm.reasoning.data import Items
from adlm.reasoning.plan import Plan
from adlm.reasoning.score import Tally, tally
from adlm.reasoning.train import load_trained, train
from adlm.reasoning.vocab import pieces
from adlm.results import write_json
from adlm.train import log


@dataclass(frozen=True)
class ReasoningRun(Tally):
    """What is kept of one run."""

    seconds: float  # of training
    training_tokens: int
    data_hash: str  # of the test items
    source: str
    plan: Plan
    tests: int
    exam: str = ""
    stages: list[float] = field(default_factory=list)  # accuracy on valid items after each


def exam_items(plan: Plan, tests: int, exam: str) -> Items:
    """Return the test items: of seed 0 whatever the run's own, so that seeds can be compared."""
    given = replace(plan.settings, seed=0, data=exam or plan.settings.data)
    return replace(plan, settings=given).items("test", tests)


def measure(plan: Plan, folder: Path, tests: int, exam: str) -> int:
    """Train (or resume), solve test items, write result.json last; returns the exit code.

    These come from `exam`: generated, files or a folder; empty: as in training.
    """
    if code := train(plan, folder, resume=True):
        return code
    trained = load_trained(str(folder))
    solver = trained.solver
    items = exam_items(plan, tests, exam)
    found = tally(solver.solve(items.items))
    made = [pieces(i, solver.vocab) for i in plan.items("train", plan.settings.items).items]
    tokens = sum(
        len(solver.method.row(p, stage, solver.vocab)) * stage.epochs
        for stage in plan.stages()
        for p in made
    )
    records = log.read(folder / "metrics.jsonl")
    result = ReasoningRun(
        **vars(found),
        seconds=trained.seconds,
        training_tokens=tokens,
        data_hash=items.hash,
        source=items.source,
        plan=plan,
        tests=tests,
        exam=exam,
        stages=[r["valid_accuracy"] for r in records if "valid_accuracy" in r],
    )
    write_json(folder / "result.json", to_dict(result))
    shutil.rmtree(folder / "checkpoints")  # the figures stay
    return 0
