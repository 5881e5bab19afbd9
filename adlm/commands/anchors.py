"""`adlm anchors`."""

from __future__ import annotations

import numpy as np
import torch
from rich.console import Console
from rich.text import Text

from adlm.commands.likelihood import DataChoice
from adlm.config import AnchorConfig, DataConfig, check
from adlm.data.cache import TokenStore
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.counts import CorpusCounts
from adlm.data.pack import pack
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.process.anchors import Anchors
from adlm.types import Batch

STYLE = "bold black on yellow"


def start(
    text: str | None = None,
    data: DataChoice = DataChoice(),
    anchor: AnchorConfig = AnchorConfig(),
    split: str = "valid",
    rows: int = 4,
) -> None:
    """Show text with its anchors coloured, and the share of tokens that are anchors.

    Args:
        text: The text; without it, rows of --data are shown.
        data: Which data set; its tokenizer also cuts the text.
        anchor: The rule and its settings.
        split: Which part of the data.
        rows: How many rows of the data to show.
    """
    check(rows >= 1, "--rows", rows, "at least 1")
    given = {k: v for k, v in vars(data).items() if v is not None}
    config = DataConfig(**{"tokenizer": "bpe:2048", "length": 128, **given})
    vocab = open_vocab(config)
    rule = Anchors(anchor, vocab)
    table = None
    if rule.reads_table:
        table = CorpusCounts.count(open_rows(config, "train", vocab), vocab.size)
    shown = of_data(config, vocab, split, rows) if text is None else of_text(text, vocab, config)
    screen = Console(highlight=False)
    total = marked = 0
    for batch in shown:
        chosen = rule(batch.x, batch.valid, table)
        for x, valid, is_anchor in zip(batch.x, batch.valid, chosen, strict=True):
            screen.print(coloured(x[valid], is_anchor[valid], vocab), "\n", soft_wrap=True)
        total += int(batch.valid.sum())
        marked += int(chosen.sum())
    settings = f"tau {anchor.tau}" if anchor.rule == "count" else f"share {anchor.share:g}"
    share = f"{marked:,} of {total:,} tokens are anchors ({marked / total:.1%})"
    print(f"{share}: {anchor.rule}, {settings}")


def of_text(text: str, vocab: Vocab, config: DataConfig) -> list[Batch]:
    """The text as rows."""
    if not text.strip():
        raise UserError("the text is empty")
    ids = vocab.encode([text])[0]
    rows = pack(TokenStore(ids, np.array([len(ids)]), 0, ""), vocab, config.length, "wrap")
    return [rows.batch(np.arange(len(rows)))]


def of_data(config: DataConfig, vocab: Vocab, split: str, count: int) -> list[Batch]:
    """Rows of a data set, spread evenly."""
    rows = open_rows(config, split, vocab)
    count = min(count, len(rows))
    return [rows.batch(np.arange(count) * len(rows) // count)]


def coloured(x: torch.Tensor, is_anchor: torch.Tensor, vocab: Vocab) -> Text:
    """The tokens as text, anchors highlighted."""
    out = Text()
    for piece, marked in zip(vocab.pieces(x.tolist()), is_anchor.tolist(), strict=True):
        out.append(piece, STYLE if marked else None)
    return out
