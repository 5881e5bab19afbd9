"""Train a plan and measure it: what a study's worker does. The figures stay, not the weights."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from adlm.config import to_dict
from adlm.reasoning.plan import Plan
from adlm.reasoning.score import Tally, tally
from adlm.reasoning.train import load_trained, train
from adlm.reasoning.vocab import pieces
from adlm.results import write_json


@dataclass(frozen=True)
class ReasoningRun(Tally):
    """What is kept of one run."""

    seconds: float  # of training
    training_tokens: int
    data_hash: str  # of the test items
    source: str
    plan: Plan
    tests: int


def measure(plan: Plan, folder: Path, tests: int) -> int:
    """Train (or resume), solve test items, write result.json last; returns the exit code.

    The test items are those of seed 0 whatever the run's own seed, so that seeds can be compared.
    """
    if code := train(plan, folder, resume=True):
        return code
    trained = load_trained(str(folder))
    solver = trained.solver
    items = replace(plan, settings=replace(plan.settings, seed=0)).items("test", tests)
    found = tally(solver.solve(items.items))
    made = [pieces(i, solver.vocab) for i in plan.items("train", plan.settings.items).items]
    tokens = sum(
        len(solver.method.row(p, stage, solver.vocab)) * stage.epochs
        for stage in plan.stages()
        for p in made
    )
    result = ReasoningRun(
        **vars(found),
        seconds=trained.seconds,
        training_tokens=tokens,
        data_hash=items.hash,
        source=items.source,
        plan=plan,
        tests=tests,
    )
    write_json(folder / "result.json", to_dict(result))
    shutil.rmtree(folder / "checkpoints")  # the figures stay
    return 0
