"""`adlm reason train`."""

from __future__ import annotations

from pathlib import Path

from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.train import train


def reason_train(
    task: str,
    method: str,
    settings: ReasoningSettings = ReasoningSettings(),
    out: str = "",
    resume: bool = False,
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
    return train(Plan(task, method, settings), folder, resume)
