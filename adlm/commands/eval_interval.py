"""`adlm eval interval`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.interval import IntervalSettings, measure
from adlm.models import checkpoint


def eval_interval(
    checkpoint_or_run: str,
    settings: IntervalSettings = IntervalSettings(),
    out: str | None = None,
) -> None:
    """Search the interval of times on which block diffusion's training loss varies least.

    Give the best one to the next part of the training: --process.clip '[0.45, 0.95]'.

    Args:
        checkpoint_or_run: A checkpoint of block diffusion, or a run (its newest one is taken).
        settings: What is measured, and how.
        out: Result file; eval/interval-SPLIT.json of the run by default.
    """
    saved = checkpoint.load(checkpoint_or_run)
    usual = saved.run / "eval" / f"interval-{settings.split}.json"
    Output(Path(out) if out else usual).finish(measure(saved, settings))
