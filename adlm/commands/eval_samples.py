"""`adlm eval samples`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.samples import SamplesSettings, measure
from adlm.models import checkpoint


def eval_samples(
    checkpoint_or_samples: str,
    settings: SamplesSettings = SamplesSettings(),
    out: str | None = None,
) -> None:
    """Judge texts: generative perplexity, entropy, distinct n-grams, repetition and MAUVE together.

    Each figure alone misleads: a model that repeats itself has a low generative perplexity. Real
    texts of the same length are judged beside, and for MAUVE against other real texts.

    Args:
        checkpoint_or_samples: A checkpoint or run, which is sampled, or a jsonl file of samples.
        settings: How texts are written, if from a checkpoint, and how they are judged.
        out: Result file; eval/samples.json of the run, or beside the samples, by default.
    """
    given = Path(checkpoint_or_samples)
    if out:
        path = Path(out)
    elif given.is_file():
        path = given.with_suffix(".quality.json")
    else:
        path = checkpoint.load(given).run / "eval/samples.json"
    output = Output(path)
    output.finish(measure(checkpoint_or_samples, settings, output.keep))
