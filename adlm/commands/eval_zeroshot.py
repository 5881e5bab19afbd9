"""`adlm eval zeroshot`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.zeroshot import ZeroshotResult, ZeroshotSettings, measure
from adlm.models import checkpoint
from adlm.world import together


def eval_zeroshot(
    checkpoint_or_run: str,
    settings: ZeroshotSettings = ZeroshotSettings(),
    out: str | None = None,
) -> None:
    """Score Lambada, PTB, WikiText, LM1B, AG News, PubMed, ArXiv and others in one go.

    The validation split of each, or its test split; sets that are not to be had are named. Stopped
    or failed half-way, the same command goes on with the sets that are left. Under torchrun each
    process scores its share of the rows, to the same figures.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        settings: Which sets are scored, and how.
        out: Result file; eval/zeroshot.json of the run by default.
    """
    saved = checkpoint.load(checkpoint_or_run)
    with together(settings.device) as world:
        output = Output(Path(out) if out else saved.run / "eval" / "zeroshot.json", world.main)
        earlier = output.earlier(ZeroshotResult)
        world.wait()  # all have read it before it is written
        output.finish(measure(saved, settings, earlier, output.keep, world))
