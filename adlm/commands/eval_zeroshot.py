"""`adlm eval zeroshot`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.zeroshot import ZeroshotResult, ZeroshotSettings, measure
from adlm.models import checkpoint


def eval_zeroshot(
    checkpoint_or_run: str,
    settings: ZeroshotSettings = ZeroshotSettings(),
    out: str | None = None,
) -> None:
    """Score Lambada, PTB, WikiText, LM1B, AG News, PubMed, ArXiv and others in one go.

    The validation split of each, or its test split; sets that are not to be had are named. Stopped
    or failed half-way, the same command goes on with the sets that are left.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        settings: Which sets are scored, and how.
        out: Result file; eval/zeroshot.json of the run by default.
    """
    saved = checkpoint.load(checkpoint_or_run)
    output = Output(Path(out) if out else saved.run / "eval" / "zeroshot.json")
    output.finish(measure(saved, settings, output.earlier(ZeroshotResult), output.keep))
