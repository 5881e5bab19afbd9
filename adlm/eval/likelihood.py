"""The figures of a likelihood: exact for AR, an upper bound for diffusion, and said to be so.

Rows that show where a document ends tell a diffusion model the lengths, so its bound is one given
the lengths, and is said to be; beside it stands the bound with the lengths coded
(`data/lengths.py`), which is the one to compare with an autoregressive model's likelihood.
"""

from __future__ import annotations

import math
from typing import Any

from adlm.data.lengths import Lengths
from adlm.data.pack import Rows
from adlm.objectives.base import Objective
from adlm.objectives.likelihood import Likelihood, length_nats


def describe(
    found: Likelihood, rows: Rows, objective: Objective, lengths: Lengths, seed: int
) -> dict[str, Any]:
    """The figures of a result file."""
    tokens = int(found.tokens.sum())
    every = tokens == len(rows.store.tokens)
    share = tokens / len(rows.store.tokens)
    text_bytes = rows.store.text_bytes if every else round(rows.store.text_bytes * share)
    given = rows.shows_ends and not objective.causal
    coded = None
    if given:
        whole = found.plus(length_nats(rows, found.index, lengths))
        coded = {**figures(whole, text_bytes), "code": str(lengths.cut(rows.length))}
    return {
        "quantity": quantity(objective, given),
        "exact": objective.exact,
        "bound": objective.bound,
        "given": "length" if given else None,
        **figures(found, text_bytes),
        "with_length": coded,
        "se_over": "documents",
        "documents": found.documents,
        "se_monte_carlo": 0.0 if objective.exact else _number(found.se_monte_carlo),
        "rows": len(found.tokens),
        "tokens": tokens,
        "bytes": text_bytes,
        "bytes_counted": "exactly" if every else "in proportion to tokens",
        "draws": found.nats.shape[1],
        "estimator": objective.estimator,
        "seed": seed,
    }


def figures(found: Likelihood, text_bytes: int) -> dict[str, Any]:
    """Nats, perplexity and bits, with their standard errors."""
    bits = found.nll * float(found.tokens.sum()) / text_bytes / math.log(2)
    return {
        "nll_per_token": found.nll,
        "ppl": found.ppl,
        "bits_per_byte": bits,
        "se_nll": _number(found.se),
        "se_ppl": _number(found.ppl * found.se),
    }


def quantity(objective: Objective, given: bool) -> str:
    """What the figure is, in words.

    Example:
        >>> from adlm.objectives.ar import Autoregressive
        >>> quantity(Autoregressive, given=False)
        'NLL (exact)'
    """
    if objective.exact:
        return "NLL (exact)"
    of = "the NLL given the lengths of documents" if given else "the NLL"
    return f"NELBO (upper bound of {of})" if objective.bound else f"estimate of {of}, no bound"


def sign(result: dict[str, Any]) -> str:
    """What stands before a figure: nothing, "at most", or "about" where it is no bound.

    Example:
        >>> sign({"exact": False}), sign({"exact": False, "bound": False}), sign({"exact": True})
        ('≤ ', '~ ', '')
    """
    if result["exact"]:
        return ""
    return "≤ " if result.get("bound", True) else "~ "


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
