"""`adlm eval harness`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.harness import HarnessSettings, measure
from adlm.models import checkpoint


def eval_harness(
    checkpoint_or_run: str,
    tasks: list[str],
    settings: HarnessSettings = HarnessSettings(),
    out: str | None = None,
) -> None:
    """Run tasks of the lm-evaluation-harness.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        tasks: Names of tasks, as a list: '[arc_easy, hellaswag]'.
        settings: How they are run.
        out: Result file; eval/harness.json of the run by default.
    """
    saved = checkpoint.load(checkpoint_or_run)
    output = Output(Path(out) if out else saved.run / "eval" / "harness.json")
    output.finish(measure(saved, tasks, settings))
