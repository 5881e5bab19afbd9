"""`adlm eval harness`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from adlm import device as devices
from adlm.config import check, to_dict
from adlm.errors import UserError, need
from adlm.models import checkpoint
from adlm.results import stamped, write_json


def start(
    checkpoint_or_run: str,
    tasks: list[str],
    include: str | None = None,
    limit: int | None = None,
    shots: int = 0,
    draws: int = 32,
    sampler: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "auto",
    out: str | None = None,
) -> None:
    """Run tasks of the lm-evaluation-harness.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        tasks: Names of tasks, as a list: '[arc_easy, hellaswag]'.
        include: Folder with further task files (YAML).
        limit: Documents of each task; all by default.
        shots: Examples in front of each document.
        draws: Monte-Carlo draws of a likelihood, for diffusion.
        sampler: Sampler of tasks that generate.
        steps: Its steps.
        seed: Seed.
        device: auto, cpu, mps, cuda or cuda:N.
        out: Result file; eval/harness.json of the run by default.
    """
    check(draws >= 1, "--draws", draws, "at least 1")
    check(bool(tasks), "TASKS", tasks, "at least one name")
    if importlib.util.find_spec("lm_eval") is None:
        raise need("lm_eval", "harness", "eval harness")
    saved = checkpoint.load(checkpoint_or_run)
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from adlm.eval.harness import Harness

    manager = TaskManager(include_path=include)
    unknown = [name for name in tasks if name not in manager.all_tasks]
    if unknown:
        raise UserError(f"the harness has no task '{unknown[0]}'")
    model = Harness(checkpoint_or_run, draws, seed, device, sampler, steps)
    found: dict[str, Any] = simple_evaluate(
        model=model,
        tasks=list(tasks),
        task_manager=manager,
        num_fewshot=shots,
        limit=limit,
        random_seed=seed,
        numpy_random_seed=seed,
        torch_random_seed=seed,
        log_samples=False,
    )
    result = {
        "command": "eval harness",
        "checkpoint": saved.path.name,
        "checkpoint_hash": saved.hash,
        "config": to_dict(saved.config),
        "seed": seed,
        "limit": limit,
        **model.get_model_info(),
        "results": {
            task: {k: v for k, v in row.items() if isinstance(v, str | int | float)}
            for task, row in found["results"].items()
        },
    }
    path = Path(out) if out else saved.run / "eval" / "harness.json"
    write_json(path, stamped(result, devices.pick(device), "fp32"))
    for task, row in result["results"].items():
        shown = ", ".join(f"{k} {v:.4f}" for k, v in row.items() if isinstance(v, float))
        print(f"{task}: {shown}")
    kind, error = result["adlm_likelihood"], result["adlm_mean_stderr_nats"]
    print(f"likelihoods: {kind}; {model.draws} draw(s), mean standard error {error:.3f} nats")
    print(f"written to {path}")
