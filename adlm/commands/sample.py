"""`adlm sample`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adlm import api
from adlm.data.records import read_prompts
from adlm.errors import UserError
from adlm.samplers.generate import SamplingSettings
from adlm.viz.texts import Outputs


def sample(
    checkpoint_or_run: str | None = None,
    prompt: str = "",
    prompts: str | None = None,
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: SamplingSettings = SamplingSettings(),
    outputs: Outputs = Outputs(),
) -> None:
    """Generate texts.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken); without it the
            model that is shipped.
        prompt: What every text begins with.
        prompts: A jsonl or csv file with a `prompt` (or a chat, `messages`) a line: --n texts of
            each, the same as each has alone.
        length: Tokens of a text, prompt included; the trained length by default, more with the
            sampler blocks.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How texts are written.
        outputs: Files beside what is printed.
    """
    if prompts is None:
        model = api.load(checkpoint_or_run, settings.device)
        return outputs.tell(model, model.blank(prompt, length, max_new_tokens), settings)
    if prompt or outputs.trace:
        other = "--prompt" if prompt else "--trace"
        raise UserError(f"--prompts answers a whole file: leave out {other}")
    found = read_prompts(Path(prompts).expanduser())
    model = api.load(checkpoint_or_run, settings.device)
    given = []
    for where, text in found:
        given.append(blank(model, where, text, length, max_new_tokens))
    outputs.answer(model, [text for _, text in found], given, settings)


def blank(
    model: api.Model, where: str, prompt: str, length: int | None, new: int | None
) -> np.ndarray:
    """The template of a prompt; what is wrong with it is said of its file and line."""
    try:
        return model.blank(prompt, length, new)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
