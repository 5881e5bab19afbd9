"""MAUVE: how far two sets of texts are apart, through `mauve-text`, over several k-means seeds."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass, field

import numpy as np

from adlm.errors import UserError, need
from adlm.eval.texts import Spread

FEWEST = 16  # texts a side, below which a figure would mean nothing
ENOUGH = 1000  # texts a side that MAUVE's authors ask for at least


@dataclass(frozen=True)
class Mauve(Spread):
    """MAUVE over several seeds, and whether there were enough texts."""

    values: list[float] = field(default_factory=list)
    texts: int = 0
    enough: bool = False
    note: str = ""


def mauve(ours: np.ndarray, theirs: np.ndarray, seeds: int = 5) -> Mauve:
    """Compare two clouds of features, (n, D) each."""
    count = min(len(ours), len(theirs))
    if count < FEWEST:
        raise UserError(f"MAUVE needs at least {FEWEST} texts on each side, found {count}")
    try:
        import mauve as package
    except ImportError:
        raise need("mauve", "judge", "MAUVE") from None
    values = []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for seed in range(seeds):
            one = package.compute_mauve(
                p_features=ours[:count], q_features=theirs[:count], seed=seed, verbose=False
            )
            values.append(float(one.mauve))
    enough = count >= ENOUGH
    note = "" if enough else f"{count} texts are few: MAUVE wants {ENOUGH} or more"
    found = Spread.of(values)
    return Mauve(found.mean, found.sd, values, count, enough, note)
