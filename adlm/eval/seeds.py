"""What figures of several seeds say together."""

from __future__ import annotations

import numpy as np

from adlm.errors import need


def interval(values: list[float]) -> tuple[float, float] | None:
    """95 % interval of the mean of n independent values, m ± t(n - 1) s / sqrt(n).

    None for fewer than three.

    Example:
        >>> [round(v, 2) for v in interval([1.0, 2.0, 3.0])]
        [-0.48, 4.48]
    """
    if len(values) < 3:
        return None
    try:
        from scipy.special import stdtrit  # the inverse of Student's t
    except ImportError:
        raise need("scipy", "plots", "an interval over seeds") from None
    half = float(stdtrit(len(values) - 1, 0.975)) * np.std(values, ddof=1) / len(values) ** 0.5
    return float(np.mean(values) - half), float(np.mean(values) + half)
