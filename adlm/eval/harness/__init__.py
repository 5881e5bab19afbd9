"""`eval harness`: tasks of EleutherAI's lm-evaluation-harness.

`Harness` is the model class that the harness sees; it is imported with the harness, on first use.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, ClassVar

from adlm import device as devices
from adlm.config import check
from adlm.errors import UserError, need
from adlm.eval.base import CheckpointResult
from adlm.models.checkpoint import Checkpoint
from adlm.registry import register
from adlm.viz.page import Section


@dataclass(frozen=True)
class HarnessSettings:
    """How tasks are run.

    Attributes:
        include: Folder with further task files (YAML).
        limit: Documents of each task; all by default.
        shots: Examples in front of each document.
        draws: Monte-Carlo draws of a likelihood, for diffusion.
        sampler: Sampler of tasks that generate.
        steps: Its steps.
        seed: Seed.
        device: auto, cpu, mps, cuda or cuda:N.
    """

    include: str | None = None
    limit: int | None = None
    shots: int = 0
    draws: int = 32
    sampler: str | None = None
    steps: int | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check(self.draws >= 1, "--draws", self.draws, "at least 1")


@register("result", "eval harness")
@dataclass(frozen=True, kw_only=True)
class HarnessResult(CheckpointResult):
    """What the harness found, task by task."""

    command: ClassVar[str] = "eval harness"
    seed: int
    limit: int | None = None
    adlm_objective: str
    adlm_likelihood: str
    adlm_draws: int
    adlm_mean_stderr_nats: float
    results: dict[str, dict[str, object]]

    def section(self, name: str) -> Section:
        rows = []
        for task, row in self.results.items():
            shown = ", ".join(f"{k} {v:.4f}" for k, v in row.items() if isinstance(v, float))
            rows.append([task, shown])
        note = (
            f"likelihoods: {self.adlm_likelihood}; {self.adlm_draws} draw(s), mean standard error "
            f"{self.adlm_mean_stderr_nats:.3f} nats"
        )
        return Section("lm-evaluation-harness", ["task", "figures"], rows, [note])


def measure(
    saved: Checkpoint, tasks: list[str], settings: HarnessSettings = HarnessSettings()
) -> HarnessResult:
    """Run tasks of the harness on a checkpoint."""
    check(bool(tasks), "TASKS", tasks, "at least one name")
    if importlib.util.find_spec("lm_eval") is None:
        raise need("lm_eval", "harness", "eval harness")
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from adlm.eval.harness.model import Harness

    manager = TaskManager(include_path=settings.include)
    unknown = [name for name in tasks if name not in manager.all_tasks]
    if unknown:
        raise UserError(f"the harness has no task '{unknown[0]}'")
    how = (settings.draws, settings.seed, settings.device, settings.sampler, settings.steps)
    model = Harness(str(saved.path), *how)
    found = simple_evaluate(
        model=model,
        tasks=list(tasks),
        task_manager=manager,
        num_fewshot=settings.shots,
        limit=settings.limit,
        random_seed=settings.seed,
        numpy_random_seed=settings.seed,
        torch_random_seed=settings.seed,
        log_samples=False,
    )
    result = HarnessResult(
        seed=settings.seed,
        limit=settings.limit,
        **model.get_model_info(),
        results={
            task: {
                k: float(v) if isinstance(v, float) else v  # numpy's too
                for k, v in row.items()
                if isinstance(v, str | int | float)
            }
            for task, row in found["results"].items()
        },
    )
    return result.of(saved).stamped(devices.pick(settings.device), "fp32")


def __getattr__(name: str) -> Any:
    """Import the model class only when it is asked for: it needs the harness."""
    if name == "Harness":
        from adlm.eval.harness.model import Harness

        return Harness
    raise AttributeError(name)
