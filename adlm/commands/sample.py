"""`adlm sample`, `adlm infill` and `adlm watch`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from adlm import api
from adlm.config import check
from adlm.results import write_text
from adlm.samplers import template
from adlm.samplers.generate import Samples, Settings
from adlm.samplers.trace import Trace
from adlm.viz.html import write_replay
from adlm.viz.terminal import play


def start(
    checkpoint_or_run: str,
    prompt: str = "",
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: Settings = Settings(),
    json_out: str | None = None,
    trace: str | None = None,
) -> None:
    """Generate texts.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        prompt: What every text begins with.
        length: Tokens of a text, prompt included; the trained length by default, more with the
            sampler blocks.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How texts are written.
        json_out: Also write the samples as JSON lines to this file (--json is short for it).
        trace: Also write a page that replays how the texts were written, such as out.html.
    """
    model = api.load(checkpoint_or_run, settings.device)
    given = model.blank(prompt, length, max_new_tokens)
    tell(model, given, settings, json_out, trace)


def infill(
    checkpoint_or_run: str,
    text: str,
    settings: Settings = Settings(),
    json_out: str | None = None,
    trace: str | None = None,
) -> None:
    """Fill the holes of a text: "The [MASK] of the union is [MASK:4] ."

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        text: The text; [MASK] is a hole of one token, [MASK:4] one of four.
        settings: How texts are written.
        json_out: Also write the texts as JSON lines to this file (--json is short for it).
        trace: Also write a page that replays how the holes were filled, such as out.html.
    """
    model = api.load(checkpoint_or_run, settings.device)
    tell(model, template.holes(text, model.vocab), settings, json_out, trace)


def watch(
    checkpoint_or_run: str,
    text: str | None = None,
    prompt: str = "",
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: Settings = Settings(),
    speed: float = 10.0,
    trace: str | None = None,
) -> None:
    """See a text appear, anchors in colour.

    Space pauses, the arrow keys go step by step, + and - change the speed, q leaves.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        text: A text with holes to fill; without it a text is written after the prompt.
        prompt: What the text begins with.
        length: Tokens of the text, prompt included; the trained length by default.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How the text is written.
        speed: Steps a second.
        trace: Also write a page that replays the run, such as out.html.
    """
    check(settings.n == 1, "--n", settings.n, "1: one text is watched")
    model = api.load(checkpoint_or_run, settings.device)
    if text is None:
        given = model.blank(prompt, length, max_new_tokens)
    else:
        given = template.holes(text, model.vocab)
    made, seen = model.record(given, settings)
    play(seen, speed)
    print(made.cost())
    if trace:
        save_trace(seen, trace)


def tell(
    model: api.Model,
    given: np.ndarray,
    settings: Settings,
    json_out: str | None,
    trace: str | None,
) -> None:
    """Write the texts and show them."""
    if trace:
        made, seen = model.record(given, settings)
    else:
        made = model.write(given, settings)
    for number, text in enumerate(made.texts):
        print(f"--- {number}\n{text}")
    print(f"--- {made.cost()}")
    if json_out:
        save_json(made, json_out)
    if trace:
        save_trace(seen, trace)


def save_json(made: Samples, out: str) -> None:
    """One line a text."""
    rows = zip(made.texts, made.ids, made.nfe.tolist(), strict=True)
    same = {"sampler": made.sampler, "seed": made.seed}
    lines = [json.dumps({"text": t, "tokens": k, "nfe": c, **same}) for t, k, c in rows]
    write_text(Path(out), "\n".join(lines) + "\n")


def save_trace(seen: Trace, out: str) -> None:
    write_replay(seen, out)
    print(f"replay: {out}")
