"""Train a plan into a folder, and take up what was trained."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from adlm import device as devices
from adlm.errors import UserError
from adlm.models import checkpoint, hub
from adlm.models.checkpoint import Checkpoint
from adlm.reasoning.plan import Plan
from adlm.reasoning.score import Solver
from adlm.reasoning.workload import Reasoning, ReasoningState
from adlm.train.distributed import World
from adlm.train.engine import Engine
from adlm.train.run import check_folder, launch


def train(plan: Plan, out: Path, resume: bool = False) -> int:
    """Train into the folder `out`; returns 0, or 128 + the number of the signal that stopped it."""
    plan.stages()  # settings are checked before anything is made
    device = devices.pick(plan.settings.device)
    changed = check_folder(plan, out, resume)
    return launch(partial(Reasoning, plan, device), plan, out, changed, device, "--resume")


def step_seconds(plan: Plan) -> float:
    """Return how long a step of the plan's last stage takes, from two real ones."""
    workload = Reasoning(plan, devices.pick(plan.settings.device))
    engine = Engine(workload, Path("unused"), World())

    def advance() -> None:
        engine.step = workload.ends[-1] - workload.phases[-1].steps
        engine.advance()

    advance()  # the first one is slower
    began = time.monotonic()
    advance()
    advance()
    return (time.monotonic() - began) / 2


@dataclass(frozen=True)
class Trained:
    """A trained run or checkpoint, ready to solve."""

    solver: Solver
    plan: Plan
    checkpoint: Checkpoint
    steps: int
    seconds: float  # of training
    data_hash: str  # of the training items


def load_trained(path: str, device: str = "auto") -> Trained:
    """Load a run of `adlm reason train`, or a checkpoint of one."""
    saved = checkpoint.load(path)
    try:
        state = saved.state(ReasoningState)
    except UserError as error:
        raise UserError(f"{path} was not trained by `adlm reason train` ({error})") from None
    plan = state.plan
    at = max(0, state.stage - (state.within == 0))  # of the last step
    picked = devices.pick(device)
    solver = Solver(
        hub.load_model(saved, picked),
        saved.vocab,
        plan.make_task(),
        plan.make_method(),
        plan.stages()[at],
        saved.config.data.length,
        state.limit,
        picked,
    )
    return Trained(solver, plan, saved, state.step, state.seconds, state.data)
