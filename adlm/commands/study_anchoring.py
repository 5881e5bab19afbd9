"""`adlm study anchoring`."""

from __future__ import annotations

from adlm.studies import anchoring
from adlm.studies.runner import StudySettings, carry_out


def study_anchoring(
    settings: StudySettings = StudySettings.of("anchoring", tokens=6_000_000, seeds=3),
) -> None:
    """Train AR, A2R, MDLM, ADLM and deep supervision at equal tokens, over several seeds.

    Beside them MDLM at ADLM's parameters and at the training FLOPs of the others. Tells beforehand
    how long it takes; stopped at any moment, the same command goes on.
    """
    carry_out(anchoring.study(settings), settings)
