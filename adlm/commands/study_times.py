"""`adlm study times`."""

from __future__ import annotations

from adlm.studies import times
from adlm.studies.runner import StudySettings, carry_out


def study_times(
    settings: StudySettings = StudySettings.of("times", seeds=2),
) -> None:
    """Search how MDLM learns best: times, weights, masking, learning rates and batch.

    One setting of laptop-mdlm is changed at a time; choose by the validation PPL. Stopped at any
    moment, the same command goes on.
    """
    carry_out(times.study(settings), settings)
