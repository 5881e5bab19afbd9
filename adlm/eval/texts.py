"""Texts with their tokens, and what can be said of them without another model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.errors import UserError


@dataclass(frozen=True)
class Texts:
    """Texts with their tokens, the model's own where they are known."""

    texts: list[str]
    tokens: list[list[int]]
    source: str | None = None  # the file they are from
    unit: str | None = None  # what is counted, where they are from a file: tokens or words


def read(path: Path, by_words: bool = False) -> Texts:
    """Read samples as `adlm sample --json` writes them: {"text": ..., "tokens": [...]}.

    Where a text has no tokens, or if asked for, words are counted instead.
    """
    texts, tokens, spoken = [], [], []
    words: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            text = record["text"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise UserError(f'{path} line {number} must be a JSON object with a "text"') from None
        if not isinstance(text, str):
            raise UserError(f"{path} line {number}: the text must be a string")
        texts.append(text)
        own = record.get("tokens")
        counts = isinstance(own, list) and all(type(token) is int for token in own)
        tokens.append(own if counts else None)
        spoken.append([words.setdefault(w, len(words)) for w in text.split()])
    if len(texts) < 2:
        raise UserError(f"{path} must have at least two samples, found {len(texts)}")
    counted = [t for t in tokens if t is not None]
    if by_words or len(counted) < len(texts):
        return Texts(texts, spoken, str(path), "words")
    return Texts(texts, counted, str(path), "tokens")


def references(rows: Rows, vocab: Vocab, count: int, length: int, seed: int) -> Texts:
    """Pick real texts, each used once: rows of at least `length` tokens, at most the rows' own."""
    full = np.flatnonzero(rows.count >= min(length, rows.length))
    if len(full) < count:
        raise UserError(
            f"the reference split has {len(full)} rows of {length} tokens, {count} are needed: "
            "take fewer samples"
        )
    chosen = np.sort(np.random.default_rng(seed).permutation(full)[:count])
    x = rows.batch(chosen).x.numpy()
    tokens = [row[:end].tolist() for row, end in zip(x, rows.count[chosen], strict=True)]
    return Texts([vocab.decode(t) for t in tokens], tokens)


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


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation; None where there are too few numbers."""

    mean: float | None = None
    sd: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Take them over the numbers among the values."""
        kept = np.array([v for v in values if not math.isnan(v)])
        sd = float(kept.std(ddof=1)) if len(kept) > 1 else None
        return cls(float(kept.mean()) if len(kept) else None, sd)


@dataclass(frozen=True, kw_only=True)
class TextFigures:
    """The figures of texts that need no judge."""

    texts: int = 0
    tokens: int = 0
    entropy: Spread = Spread()
    distinct: dict[str, float | None] = field(default_factory=dict)  # n -> share of new n-grams
    distinct_texts: int | None = None
    repetition: Spread = Spread()
    empty: int = 0


def describe(found: Texts, count: int | None = None) -> TextFigures:
    """Take the figures that need no judge.

    Among more texts fewer n-grams are new, so to be compared with other texts distinct n-grams are
    those of `count` texts, spread evenly.
    """
    count = min(count or len(found.texts), len(found.texts))
    chosen = [found.tokens[i * len(found.tokens) // count] for i in range(count)]
    return TextFigures(
        texts=len(found.texts),
        tokens=sum(map(len, found.tokens)),
        entropy=Spread.of([entropy(t) for t in found.tokens]),
        distinct={str(n): distinct(chosen, n) for n in (1, 2, 3)},
        distinct_texts=count,
        repetition=Spread.of([repetition(t) for t in found.tokens]),
        empty=sum(not t.strip() for t in found.texts),
    )
