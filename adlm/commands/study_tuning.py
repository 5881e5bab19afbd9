"""`adlm study tuning`."""

from __future__ import annotations

from adlm.studies import tuning
from adlm.studies.runner import StudySettings, carry_out


def study_tuning(
    settings: StudySettings = StudySettings.of("tuning"),
) -> None:
    """Search how BD3-LM, SEDD, D3PM, UDLM and GIDD learn best: times, weights and intervals.

    Each is trained as published and in other ways; choose by the validation PPL. Stopped at any
    moment, the same command goes on.
    """
    carry_out(tuning.study(settings), settings)
