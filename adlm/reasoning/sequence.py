"""A problem as the network sees it: question, slots, target, and where the loss is taken.

    question          slots                         target
    no loss           forced, also at inference     steps that are kept, ### answer, EOS
                      (loss at anchors)             loss at every token

A label stands at the position of its token and is predicted from the position before. At a
*thought* the input is not an embedding but the hidden state of the position before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adlm.reasoning.vocab import Pieces

IGNORE = -100


@dataclass(frozen=True)
class Slots:
    """What stands between question and target."""

    ids: list[int]
    labels: list[int]  # IGNORE = no loss
    thoughts: list[bool]  # is the input the hidden state before?

    @classmethod
    def plain(cls, ids: list[int]) -> Slots:
        return cls(ids, [IGNORE] * len(ids), [False] * len(ids))


@dataclass(frozen=True)
class Row:
    """One row, before padding."""

    ids: list[int]
    labels: list[int]
    thoughts: list[bool]
    prompt: int  # positions that are given at inference: question and slots
    question: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def first(self) -> int:
        """The first thought's position; the length where there is none."""
        return self.thoughts.index(True) if any(self.thoughts) else len(self.ids)

    @property
    def labelled(self) -> int:
        """How many positions have a loss."""
        return len(self.labels) - self.labels.count(IGNORE)

    def unlabelled(self) -> Row:
        """Return the same without a loss."""
        return replace(self, labels=[IGNORE] * len(self))


def make_row(item: Pieces, slots: Slots, removed: int) -> Row:
    """Return the row of an item with its first `removed` steps gone."""
    target = [t for step in item.steps[removed:] for t in step] + item.answer
    ids = item.question + slots.ids + target
    labels = [IGNORE] * len(item.question) + slots.labels + target
    thoughts = [False] * len(item.question) + slots.thoughts + [False] * len(target)
    prompt = len(item.question) + len(slots.ids)
    return Row(ids, labels, thoughts, prompt, len(item.question))


@dataclass(frozen=True)
class ReasoningRows:
    """A padded batch. Rows with thoughts are shifted so that these stand in the same columns."""

    ids: Tensor  # (B, L)
    labels: Tensor  # (B, L)
    segment: Tensor | None  # (B, L) -1 = padding; None where padding stands at the end only
    columns: range  # of the thoughts

    def to(self, device: str) -> ReasoningRows:
        segment = None if self.segment is None else self.segment.to(device)
        return ReasoningRows(self.ids.to(device), self.labels.to(device), segment, self.columns)


def collate(batch: list[Row], pad: int) -> ReasoningRows:
    """Pad at the end, and before the question where thoughts have to be aligned.

    Example:
        >>> a = Row([5, 6, 7], [-100, -100, 7], [False, True, False], 2, 1)
        >>> b = Row([4, 5, 6, 8], [-100, -100, -100, 8], [False, False, True, False], 3, 2)
        >>> rows = collate([a, b], 0)
        >>> rows.ids.tolist(), list(rows.columns)
        ([[0, 5, 6, 7], [4, 5, 6, 8]], [2])
    """
    count = sum(batch[0].thoughts)
    if any(sum(s.thoughts) != count for s in batch):
        raise ValueError("the rows of a batch must have equally many thoughts")
    first = max(s.first for s in batch) if count else 0
    shifts = [first - s.first if count else 0 for s in batch]
    length = max(shift + len(s) for shift, s in zip(shifts, batch, strict=True))
    ids = torch.full((len(batch), length), pad)
    labels = torch.full((len(batch), length), IGNORE)
    segment = torch.full((len(batch), length), -1)
    for row, (shift, s) in enumerate(zip(shifts, batch, strict=True)):
        span = slice(shift, shift + len(s))
        ids[row, span] = torch.tensor(s.ids)
        labels[row, span] = torch.tensor(s.labels)
        segment[row, span] = 0
    shifted = segment if any(shifts) else None
    return ReasoningRows(ids, labels, shifted, range(first, first + count))
