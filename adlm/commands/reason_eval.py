"""`adlm reason eval`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import check
from adlm.reasoning.evaluate import Problems, evaluate
from adlm.reasoning.train import load_trained
from adlm.results import try_place


def reason_eval(
    checkpoint: str,
    task: str,
    settings: Problems = Problems(),
    skip_bad: bool = False,
    limit: int = 0,
    batch: int = 64,
    device: str = "auto",
    out: str | None = None,
) -> None:
    """Solve a task's items: exact match with its interval, sound traces, tokens, anchor recall.

    Args:
        checkpoint: A run of `adlm reason train`, or its checkpoint.
        task: The task; with the knobs of the training where it is the one trained on.
        settings: Which items.
        skip_bad: Leave bad records of a file out.
        limit: Items; 0 = all of a file's, or 500 generated ones.
        batch: Items that are solved at once.
        device: auto, cpu, mps, cuda or cuda:N.
        out: Result file; eval/reason-TASK-SPLIT.json of the run by default.
    """
    check(limit >= 0, "--limit", limit, "0 (all) or more")
    check(batch >= 1, "--batch", batch, "at least 1")
    if out:
        try_place(Path(out))
    trained = load_trained(checkpoint, device)
    result = evaluate(trained, task, settings, limit, batch, skip_bad)
    print(result.text())
    path = Path(out) if out else trained.checkpoint.run / "eval" / f"{result.file}.json"
    result.save(path)
    print(f"written to {path}")
