"""`adlm study ablate`."""

from __future__ import annotations

from adlm.studies import ablate
from adlm.studies.runner import StudySettings, carry_out


def study_ablate(
    axes: list[str] = ablate.AXES,
    settings: StudySettings = StudySettings.of("ablate"),
) -> None:
    """Change one setting of laptop-adlm, the paper's system, at a time.

    gamma, tau, rule, positions, until, every and rare (the anchor loss), bridge, rate (of the
    bridge), shared (anchor head) and depth (the network); beside a plain MDLM and a larger one.

    Args:
        axes: Which settings, as a list: '[gamma, bridge]'; bridge=softmax takes only those rows of
            the axis that have the word.
        settings: Budget, seeds and places.
    """
    carry_out(ablate.study(axes, settings), settings)
