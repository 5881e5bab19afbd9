"""`adlm watch`."""

from __future__ import annotations

from adlm import api
from adlm.config import check
from adlm.models import shipped
from adlm.samplers import template
from adlm.samplers.settings import SamplingSettings
from adlm.viz.html import write_replay
from adlm.viz.terminal import play


def watch(
    checkpoint_or_run: str | None = None,
    text: str | None = None,
    prompt: str = "",
    length: int | None = None,
    max_new_tokens: int | None = None,
    settings: SamplingSettings = SamplingSettings(),
    speed: float = 10.0,
    trace: str | None = None,
) -> None:
    """See a text appear, anchors or rare words in colour: a line below says which.

    Space pauses, the arrow keys go step by step, + and - change the speed, q leaves.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken); without it the
            model that is shipped.
        text: A text with holes to fill; without it a text is written after the prompt.
        prompt: What the text begins with; "My fellow Americans:" for the shipped model, where
            neither this nor a length is given.
        length: Tokens of the text, prompt included; the trained length by default.
        max_new_tokens: Tokens after the prompt, instead of --length.
        settings: How the text is written.
        speed: Steps a second.
        trace: Also write a page that replays the run, such as out.html.
    """
    check(settings.n == 1, "--n", settings.n, "1: one text is watched")
    usual = shipped.WRITES if text is None else shipped.FILLS
    model = api.load(shipped.instead(checkpoint_or_run, usual), settings.device)
    holes = template.holes(text, model.vocab) if text is not None else None
    if not any((checkpoint_or_run, prompt, length, max_new_tokens)):
        prompt = template.opening(shipped.SALUTE, model.config.data.length, model.vocab)
    given = model.blank(prompt, length, max_new_tokens) if holes is None else holes
    made, seen = model.record(given, settings)
    play(seen, speed)
    print(made.cost())
    if trace:
        write_replay(seen, trace)
        print(f"replay: {trace}")
