"""`adlm study baselines`."""

from __future__ import annotations

from adlm.studies import baselines
from adlm.studies.runner import StudySettings, carry_out


def study_baselines(
    settings: StudySettings = StudySettings.of("baselines", tokens=6_000_000, seeds=3),
) -> None:
    """Train AR, MDLM, SEDD, D3PM, UDLM, Duo, GIDD and BD3-LM, and their anchored forms.

    At equal tokens on the default corpus, with the training FLOPs beside. Tells beforehand how
    long it takes; stopped at any moment, the same command goes on.
    """
    carry_out(baselines.study(settings), settings)
