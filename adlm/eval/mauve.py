"""MAUVE: how far two sets of texts are apart, through `mauve-text`, over several k-means seeds."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np

from adlm.errors import UserError, need
from adlm.eval.texts import mean_sd

FEWEST = 16  # texts a side, below which a figure would mean nothing
ENOUGH = 1000  # texts a side that MAUVE's authors ask for at least


def mauve(ours: np.ndarray, theirs: np.ndarray, seeds: int = 5) -> dict[str, Any]:
    """Of two clouds of features, (n, D) each: mean ± sd over seeds, and whether n is enough."""
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
            found = package.compute_mauve(
                p_features=ours[:count], q_features=theirs[:count], seed=seed, verbose=False
            )
            values.append(float(found.mauve))
    return {
        **mean_sd(values),
        "values": values,
        "texts": count,
        "enough": count >= ENOUGH,
        "note": "" if count >= ENOUGH else f"{count} texts are few: MAUVE wants {ENOUGH} or more",
    }
