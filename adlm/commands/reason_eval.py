"""`adlm reason eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from adlm.config import check
from adlm.reasoning.evaluate import Problems, evaluate
from adlm.reasoning.train import load_trained
from adlm.results import try_place


def reason_eval(
    checkpoint: str,
    task: str,
    split: Literal["train", "valid", "test"] = "test",
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
        task: The task; with the knobs of the training where it is the one trained on.
        split: Part of the data.
        data: generated, files, or a folder; as in training by default.
        data_dir: Folder of the public files; the variable ADLM_DATA by default.
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
    problems = Problems(task, split, data, data_dir, skip_bad, limit)
    result = evaluate(trained, problems, batch)
    print(result.text())
    path = Path(out) if out else trained.checkpoint.run / "eval" / f"{result.file}.json"
    result.save(path)
    print(f"written to {path}")
