"""What can be said of generated texts without another model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def entropy(tokens: Sequence[int]) -> float:
    """Unigram entropy of one text in nats: -sum_v p_v log p_v over its own tokens.

    Example:
        >>> round(entropy([1, 2, 1, 2]), 4), abs(entropy([7, 7, 7]))
        (0.6931, 0.0)
    """
    _, counts = np.unique(np.asarray(tokens), return_counts=True)
    p = counts / counts.sum()
    return float(-(p * np.log(p)).sum()) if len(counts) else math.nan


def distinct(texts: Sequence[Sequence[int]], n: int) -> float:
    """Share of different n-grams among all n-grams of all texts.

    Example:
        >>> distinct([[1, 2, 1, 2], [1, 2]], 2)
        0.5
    """
    grams = [tuple(t[i : i + n]) for t in texts for i in range(len(t) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


def repetition(tokens: Sequence[int], n: int = 4) -> float:
    """Share of a text's n-grams that occurred in it before.

    Example:
        >>> repetition([1, 2, 1, 2, 1], n=2)
        0.5
    """
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else math.nan


def mean_sd(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation of the numbers among the values."""
    kept = np.array([v for v in values if not math.isnan(v)])
    if not len(kept):
        return {"mean": None, "sd": None}
    spread = float(kept.std(ddof=1)) if len(kept) > 1 else None
    return {"mean": float(kept.mean()), "sd": spread}
