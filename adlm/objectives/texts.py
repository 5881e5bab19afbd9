"""Nats of single texts: rows of documents, summed by text, with what the draws leave of error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adlm.data.cache import TokenStore
from adlm.data.pack import Rows, pack
from adlm.data.vocab import Vocab
from adlm.objectives.likelihood import Likelihood, strata_variance


class Nats(np.ndarray):
    """Nats of some texts: an array, (texts,), with the standard error of each as `se`.

    Example:
        >>> found = Nats.of(np.array([2.0, 3.0]), np.array([0.1, 0.2]))
        >>> float(found.sum()), found.se.tolist()
        (5.0, [0.1, 0.2])
    """

    se: np.ndarray

    @classmethod
    def of(cls, nats: np.ndarray, se: np.ndarray) -> Nats:
        made = nats.view(cls)
        made.se = se
        return made


def document_rows(texts: Sequence[str], vocab: Vocab, length: int) -> Rows:
    """Texts as documents, each with its end, in rows of its own."""
    ids = [np.append(e, vocab.eos) for e in vocab.encode(texts)]
    store = TokenStore(np.concatenate(ids), np.cumsum([len(i) for i in ids]), 0, "")
    return pack(store, vocab, length, "document")


def by_text(found: Likelihood, texts: int, exact: bool) -> Nats:
    """Sum the rows of each text; an error that one draw alone leaves is not a number."""
    rows, draws = found.nats.shape
    variance = np.full(rows, 0.0 if exact else np.nan)
    if draws > 1:
        variance = strata_variance(found.nats)
    sums = (
        np.bincount(found.document, each, minlength=texts)
        for each in (found.nats.mean(axis=1), variance)
    )
    nats, squared = sums
    return Nats.of(nats, squared**0.5)
