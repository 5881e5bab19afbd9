"""A text with holes becomes token ids with masks: prompts and infilling are both templates."""

from __future__ import annotations

import re

import numpy as np

from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.errors import UserError

HOLE = re.compile(r"\[MASK(?::(\d+))?\]")


def after(prompt: str, length: int, vocab: Vocab, new: int | None = None) -> np.ndarray:
    """Return a prompt, and masks up to `length` tokens in all; or `new` masks.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> len(after("abc", 16, byte_vocab())), len(after("abc", 16, byte_vocab(), new=4))
        (16, 7)
    """
    given = ids(prompt, vocab)
    if new is not None:
        check(new >= 1, "--max_new_tokens", new, "at least 1")
        length = len(given) + new
    check(2 <= length <= 2**24, "--length", length, f"from 2 to {2**24:,}")
    if len(given) >= length:
        raise UserError(f"the prompt has {len(given)} tokens, and only {length} fit")
    return np.append(given, np.full(length - len(given), vocab.mask))


def opening(words: str, length: int, vocab: Vocab) -> str:
    """Return words to begin a text with, if a text of that length has room enough after them.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> opening("We", 16, byte_vocab()), opening("We", 4, byte_vocab())
        ('We', '')
    """
    return words if 4 * len(ids(words, vocab)) <= length else ""


def holes(text: str, vocab: Vocab) -> np.ndarray:
    """`The [MASK] of the union is [MASK:4] .`: one hole of one token and one of four.

    Where a word's token carries the space before it, the space before a hole is the hole's.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> vocab = byte_vocab()
        >>> (holes("ab[MASK:2]c", vocab) == vocab.mask).tolist()
        [False, False, True, True, False]
    """
    parts: list[np.ndarray] = []
    end = 0
    own_space = carries_space(vocab)
    for found in HOLE.finditer(text):
        before = text[end : found.start()]
        if own_space and before.endswith(" "):
            before = before[:-1]
        size = int(found.group(1) or 1)
        check(1 <= size < 2**24, found.group(), size, "a hole of at least 1 token (below 2^24)")
        parts += [ids(before, vocab), np.full(size, vocab.mask)]
        end = found.end()
    if not parts:
        raise UserError("the template has no hole: write [MASK], or [MASK:4] for four tokens")
    return np.concatenate([*parts, ids(text[end:], vocab)])


def ids(text: str, vocab: Vocab) -> np.ndarray:
    """Token ids, none for no text."""
    return vocab.encode([text])[0] if text else np.zeros(0, dtype=np.int64)


def carries_space(vocab: Vocab) -> bool:
    """Does a word's token carry the space before it?"""
    bare, spaced = vocab.encode(["a", " a"])
    return len(bare) == len(spaced)
