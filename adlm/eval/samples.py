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


def read(path: Path) -> Texts:
    """Samples as `adlm sample --json` writes them: {"text": ..., "tokens": [...]}; words count
    as tokens where there are none."""
    texts, tokens = [], []
    words: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
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
        tokens.append(
            record.get("tokens") or [words.setdefault(w, len(words)) for w in text.split()]
        )
    if len(texts) < 2:
        raise UserError(f"{path} must have at least two samples, found {len(texts)}")
    return Texts(texts, tokens, {"samples": str(path)})


def plain(found: Texts) -> dict[str, Any]:
    """The figures that need no judge."""
    return {
        "texts": len(found.texts),
        "tokens": sum(map(len, found.tokens)),
        "entropy": mean_sd([entropy(t) for t in found.tokens]),
        "distinct": {str(n): distinct(found.tokens, n) for n in (1, 2, 3)},
        "repetition": mean_sd([repetition(t) for t in found.tokens]),
        "empty": sum(not t.strip() for t in found.texts),
    }


def references(rows: Rows, vocab: Vocab, count: int, length: int, seed: int) -> Texts:
    """Real texts of the same length, each used once."""
    full = np.flatnonzero(rows.count >= length)
    if len(full) < count:
        raise UserError(
            f"the reference split has {len(full)} rows of {length} tokens, {count} are needed: "
            "take fewer samples"
        )
    chosen = np.random.default_rng(seed).permutation(full)[:count]
    x = rows.batch(np.sort(chosen)).x.numpy()[:, :length]
    return Texts(decode(x, vocab), x.tolist(), {})


def decode(tokens: np.ndarray, vocab: Vocab) -> list[str]:
    return [vocab.decode(row) for row in tokens]


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
