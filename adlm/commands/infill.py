"""`adlm infill`."""

from __future__ import annotations

from adlm import api
from adlm.models import shipped
from adlm.samplers import template
from adlm.samplers.settings import SamplingSettings
from adlm.viz.texts import Outputs


def infill(
    *,
    checkpoint_or_run: str | None = None,
    text: str,
    settings: SamplingSettings = SamplingSettings(),
    outputs: Outputs = Outputs(),
) -> None:
    """Fill the holes of a text: "The [MASK] of the union is [MASK:4] ."

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken); without it the
            model that is shipped.
        text: The text; [MASK] is a hole of one token, [MASK:4] one of four.
        settings: How texts are written.
        outputs: Files beside what is printed.
    """
    model = api.load(shipped.instead(checkpoint_or_run, shipped.FILLS), settings.device)
    outputs.tell(model, template.holes(text, model.vocab), settings)
