"""Prompts and answers: one pair a row, of which the answer alone is hidden and scored.

Prompt and answer are tokenised apart, so that a model continues a
prompt as it was trained to, whatever the answer begins with.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from adlm.config import DataConfig
from adlm.data import cache
from adlm.data.cache import TokenStore
from adlm.data.pack import Rows, pack
from adlm.data.sources import open_source
from adlm.data.vocab import Vocab
from adlm.errors import UserError


def open_pairs(config: DataConfig, split: str, words: Vocab) -> Rows:
    """Open the pairs of one split as rows."""
    prompts, answers = (
        cache.load(open_source(config, split, part), words, config.workers)
        for part in ("prompt", "answer")
    )
    given = np.diff(prompts.ends, prepend=0) - 1  # (N,) tokens of a prompt, which has no end
    count = given + np.diff(answers.ends, prepend=0)  # (N,) with the answer and its end
    fits = count <= config.length
    if not fits.all() and not config.skip_long:
        first = int(fits.argmin())
        raise UserError(
            f"pair {first + 1} of {config.name} ({split}) has {count[first]} tokens, and a row "
            f"{config.length}: take a larger data.length, or leave such pairs out with "
            "data.skip_long"
        )
    if not fits.any():
        raise UserError(f"no pair of {config.name} ({split}) fits into {config.length} tokens")
    store = joined(prompts, answers, np.flatnonzero(fits))
    rows = pack(store, words, config.length, "document")
    return replace(rows, packing="pair", given=given[fits], left_out=int((~fits).sum()))


def joined(prompts: TokenStore, answers: TokenStore, index: np.ndarray) -> TokenStore:
    """Return the pairs `index` as documents: a prompt without its end, then its answer."""
    stores = (prompts, answers)
    begins = [np.concatenate(([0], s.ends[:-1]))[index] for s in stores]
    sizes = [s.ends[index] - b for s, b in zip(stores, begins, strict=True)]
    sizes[0] = sizes[0] - 1
    total = sizes[0] + sizes[1]
    ends = np.cumsum(total)
    pair = np.repeat(np.arange(len(index)), total)
    place = np.arange(len(pair)) - np.repeat(ends - total, total)
    asked = place < sizes[0][pair]
    at = (np.where(asked, begins[0][pair] + place, 0), begins[1][pair] + place - sizes[0][pair])
    tokens = np.where(asked, prompts.tokens[at[0]], answers.tokens[np.maximum(at[1], 0)])
    share = sizes[1].sum() / len(answers.tokens)  # of the answers' text, where some are left out
    key = hashlib.sha256(f"{prompts.key} {answers.key} {len(index)}".encode()).hexdigest()[:32]
    return TokenStore(tokens, ends, round(share * answers.text_bytes), key)
