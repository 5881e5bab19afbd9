"""`adlm study finetune`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.studies import finetune
from adlm.studies.finetune import FinetuneSettings


def study_finetune(settings: FinetuneSettings = FinetuneSettings()) -> int:
    """Measure what a base is worth: fine-tuning against from scratch, AR -> MDLM against MDLM.

    Seven short runs, one after the other. Stopped at any moment, the same command goes on.
    """
    output = Output(Path(settings.out).expanduser())
    found = finetune.study(settings)
    if isinstance(found, int):
        return found
    output.finish(found)
    return 0
