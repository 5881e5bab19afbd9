"""`adlm eval anchors`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.anchors import AnchorsSettings, measure
from adlm.models import checkpoint
from adlm.viz.plots import require


def eval_anchors(
    checkpoint_or_run: str,
    settings: AnchorsSettings = AnchorsSettings(),
    out: str | None = None,
) -> None:
    """How good are the anchors, and how far does a poor anchor harm the output?

    Accuracy, nats and calibration of the anchor network and the denoiser by masking ratio; which
    tokens are anchors; and the bound and the samples when anchors are damaged at the bridge: noise,
    shuffled positions, forced wrong tokens, silence.

    Args:
        checkpoint_or_run: A checkpoint or run with an anchor network.
        settings: What is looked at, and how closely.
        out: Result file; eval/anchors.json of the run by default, two plots (.png) beside it.
    """
    require()
    saved = checkpoint.load(checkpoint_or_run)
    output = Output(Path(out) if out else saved.run / "eval" / "anchors.json")
    result = measure(checkpoint_or_run, settings, output.keep)
    stem = output.path.stem
    output.finish(result, f", with {stem}.png and {stem}-ratio.png beside it")
    result.draw(output.path.with_suffix(".png"))
