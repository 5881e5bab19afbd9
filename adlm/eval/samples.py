"""Quality of generated texts: everything together, because each figure alone misleads.

A generative perplexity falls when a model repeats itself; the entropy and the repetition beside it
say so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.eval.texts import distinct, entropy, mean_sd, repetition


@dataclass(frozen=True)
class Texts:
    """Texts with their tokens, the model's own where they are known."""

    texts: list[str]
    tokens: list[list[int]]
    about: dict[str, Any]


def read(path: Path, by_words: bool = False) -> Texts:
    """Samples as `adlm sample --json` writes them: {"text": ..., "tokens": [...]}.

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
        except (ValueError, KeyError, TypeError):
            raise UserError(f'{path} line {number} must be a JSON object with a "text"') from None
        if not isinstance(text, str):
            raise UserError(f"{path} line {number}: the text must be a string")
        texts.append(text)
        own = record.get("tokens")
        tokens.append(own if isinstance(own, list) else None)
        spoken.append([words.setdefault(w, len(words)) for w in text.split()])
    if len(texts) < 2:
        raise UserError(f"{path} must have at least two samples, found {len(texts)}")
    counted = [t for t in tokens if t is not None]
    if by_words or len(counted) < len(texts):
        return Texts(texts, spoken, {"samples": str(path), "unit": "words"})
    return Texts(texts, counted, {"samples": str(path), "unit": "tokens"})


def plain(found: Texts, count: int | None = None) -> dict[str, Any]:
    """The figures that need no judge.

    Among more texts fewer n-grams are new, so to be compared with other texts distinct n-grams are
    those of `count` texts, spread evenly.
    """
    count = min(count or len(found.texts), len(found.texts))
    chosen = [found.tokens[i * len(found.tokens) // count] for i in range(count)]
    return {
        "texts": len(found.texts),
        "tokens": sum(map(len, found.tokens)),
        "entropy": mean_sd([entropy(t) for t in found.tokens]),
        "distinct": {str(n): distinct(chosen, n) for n in (1, 2, 3)},
        "distinct_texts": count,
        "repetition": mean_sd([repetition(t) for t in found.tokens]),
        "empty": sum(not t.strip() for t in found.texts),
    }


def references(rows: Rows, vocab: Vocab, count: int, length: int, seed: int) -> Texts:
    """Real texts, each used once: rows of at least `length` tokens, at most the rows' own."""
    full = np.flatnonzero(rows.count >= min(length, rows.length))
    if len(full) < count:
        raise UserError(
            f"the reference split has {len(full)} rows of {length} tokens, {count} are needed: "
            "take fewer samples"
        )
    chosen = np.sort(np.random.default_rng(seed).permutation(full)[:count])
    x = rows.batch(chosen).x.numpy()
    tokens = [row[:end].tolist() for row, end in zip(x, rows.count[chosen], strict=True)]
    return Texts([vocab.decode(t) for t in tokens], tokens, {})


def table(rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Markdown: one line a set of texts."""
    head = ["texts", "gen. PPL", "entropy", "distinct-2", "repetition", "MAUVE"]
    lines = [head, ["---"] * len(head)]
    for name, r in rows:
        lines.append(
            [
                name,
                _figure(r.get("generative_ppl")),
                _spread(r["entropy"]),
                _figure(r["distinct"]["2"], 3),
                _spread(r["repetition"], 3),
                _spread(r.get("mauve"), 3),
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _figure(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _spread(value: dict[str, Any] | None, digits: int = 2) -> str:
    if not value or value["mean"] is None:
        return ""
    spread = "" if value["sd"] is None else f" ± {value['sd']:.{digits}f}"
    return f"{value['mean']:.{digits}f}{spread}"
