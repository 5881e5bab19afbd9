"""`adlm sample`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adlm import api
from adlm.data.records import read_prompts
from adlm.errors import UserError
from adlm.models import shipped
from adlm.samplers import template
from adlm.samplers.settings import SamplingSettings
from adlm.viz.texts import Outputs
from adlm.world import together


def sample(
    checkpoint_or_run: str | None = None,
    prompt: str = "",
    prompts: str | None = None,
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: SamplingSettings = SamplingSettings(),
    outputs: Outputs = Outputs(),
) -> None:
    """Generate texts; under torchrun each process writes its share of them.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken); without it the
            model that is shipped.
        prompt: What every text begins with; "My fellow Americans:" for the shipped model, where
            neither this nor a length is given.
        prompts: A jsonl or csv file with a `prompt` (or a chat, `messages`) a line: --n texts of
            each, the same as each has alone.
        length: Tokens of a text, prompt included; the trained length by default, more with the
            sampler blocks.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How texts are written.
        outputs: Files beside what is printed.
    """
    if prompts and (prompt or outputs.trace):
        other = "--prompt" if prompt else "--trace"
        raise UserError(f"--prompts answers a whole file: leave out {other}")
    found = read_prompts(Path(prompts).expanduser()) if prompts is not None else []
    with together(settings.device) as world:
        if outputs.trace and world.size > 1:
            raise UserError("--trace records the texts of one process: leave out torchrun")
        model = api.load(checkpoint_or_run, settings.device)
        if prompts is None:
            if not any((checkpoint_or_run, prompt, length, max_new_tokens)):
                prompt = template.opening(shipped.SALUTE, model.config.data.length, model.vocab)
            given = model.blank(prompt, length, max_new_tokens)
            return outputs.tell(model, given, settings, world)
        every = [blank(model, where, text, length, max_new_tokens) for where, text in found]
        return outputs.answer(model, [text for _, text in found], every, settings, world)


def blank(
    model: api.Model, where: str, prompt: str, length: int | None, new: int | None
) -> np.ndarray:
    """The template of a prompt; what is wrong with it is said of its file and line."""
    try:
        return model.blank(prompt, length, new)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
