"""`adlm sample`."""

from __future__ import annotations

from adlm import api
from adlm.samplers.generate import SamplingSettings
from adlm.viz.texts import Outputs


def sample(
    checkpoint_or_run: str,
    prompt: str = "",
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: SamplingSettings = SamplingSettings(),
    outputs: Outputs = Outputs(),
) -> None:
    """Generate texts.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        prompt: What every text begins with.
        length: Tokens of a text, prompt included; the trained length by default, more with the
            sampler blocks.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How texts are written.
        outputs: Files beside what is printed.
    """
    model = api.load(checkpoint_or_run, settings.device)
    given = model.blank(prompt, length, max_new_tokens)
    outputs.tell(model, given, settings)
