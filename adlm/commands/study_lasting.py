"""`adlm study lasting`."""

from __future__ import annotations

from adlm.studies import lasting
from adlm.studies.lasting import LastingSettings
from adlm.studies.runner import carry_out

USUAL = LastingSettings(
    tokens=6_000_000, seeds=3, home="runs/study-lasting", out="results/study-lasting.json"
)


def study_lasting(settings: LastingSettings = USUAL) -> None:
    """Ask of each way to train whether it stays ahead of the best MDLM at equal training FLOPs.

    Every candidate is tried once at the first budget and size; the best go on to all budgets, sizes
    and seeds (--promote). Stopped at any moment, the same command goes on.
    """
    carry_out(lasting.study(settings), settings)
