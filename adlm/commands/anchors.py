"""`adlm anchors`."""

from __future__ import annotations

from adlm.config import AnchorConfig, DataConfig, check
from adlm.data.corpus import open_rows, open_vocab, text_rows
from adlm.data.counts import CorpusCounts
from adlm.process.anchors import Anchors
from adlm.progress import Screen
from adlm.viz.terminal import marked


def anchors(
    text: str | None = None,
    data: DataConfig = DataConfig(tokenizer="bpe:2048", length=128),
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
    vocab = open_vocab(data)
    rule, table = Anchors(anchor, vocab), None
    if rule.reads_table:
        table = CorpusCounts.count(open_rows(data, "train", vocab), vocab.size)
    if text is None:
        batch = open_rows(data, split, vocab).spread(rows)
    else:
        batch = text_rows(text, vocab, data.length).spread()
    chosen = rule(batch.x, batch.valid, table)  # (B, L)
    screen = Screen(highlight=False)
    for x, valid, is_anchor in zip(batch.x, batch.valid, chosen, strict=True):
        screen.print(marked(x[valid], is_anchor[valid], vocab), "\n", soft_wrap=True)
    total, count = int(batch.valid.sum()), int(chosen.sum())
    how = f"tau {anchor.tau}" if anchor.rule == "count" else f"share {anchor.share:g}"
    share = f"{count:,} of {total:,} tokens are anchors ({count / total:.1%})"
    print(f"{share}: {anchor.rule}, {how}")
