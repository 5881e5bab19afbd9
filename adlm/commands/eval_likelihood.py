"""`adlm eval likelihood`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.likelihood import LikelihoodSettings, measure
from adlm.models import checkpoint
from adlm.world import together


def eval_likelihood(
    checkpoint_or_run: str,
    settings: LikelihoodSettings = LikelihoodSettings(),
    out: str | None = None,
) -> None:
    """Score text: perplexity with its standard error, and whether it is exact or a bound.

    Under torchrun each process scores its share of the rows, to the same figure.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        settings: What is scored, and how.
        out: Result file; eval/likelihood-DATA-SPLIT.json of the run by default.
    """
    saved = checkpoint.load(checkpoint_or_run)
    text = settings.data.name or saved.config.data.name
    label = Path(text).name.replace(":", "-") or "data"
    usual = saved.run / "eval" / f"likelihood-{label}-{settings.split}.json"
    with together(settings.device) as world:
        output = Output(Path(out) if out else usual, world.main)
        output.finish(measure(saved, settings, world))
