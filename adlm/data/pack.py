"""Rows of L tokens as views of a token store.

    wrap      documents end to end, cut every L tokens; the last row is shorter
    document  each document starts a new row; a long one goes on in the next rows
    pair      a prompt and its answer a row (see `pairs`); the prompt is shown, never scored

No token is dropped in either: a shorter row is padded, and padding is neither seen nor scored.
Nothing here knows of workers, so rows cannot depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from adlm.data.cache import TokenStore
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.types import Batch


@dataclass(frozen=True)
class Even:
    """Cuts every `length` tokens; nothing is held, however many rows there are."""

    total: int  # tokens
    length: int

    def __len__(self) -> int:
        return -(-self.total // self.length)

    def at(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first token and the tokens of some rows: (B,) each."""
        start = np.asarray(index, dtype=np.int64) * self.length
        return start, np.minimum(self.length, self.total - start)


@dataclass(frozen=True)
class Listed:
    """Cuts anywhere: 16 bytes a row."""

    start: np.ndarray  # (N,) int64 first token of each row
    count: np.ndarray  # (N,) int64 tokens in each row

    def __len__(self) -> int:
        return len(self.start)

    def at(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.start[index], self.count[index]


@dataclass(frozen=True)
class Rows:
    """N rows of at most `length` tokens."""

    store: TokenStore
    cuts: Even | Listed
    length: int
    pad: int
    eos: int
    by_document: bool  # may tokens see only their own document?
    packing: str
    given: np.ndarray | None = None  # (N,) tokens of its prompt, of pairs: shown, never scored
    left_out: int = 0  # pairs that are too long
    begins_in: np.ndarray | None = None  # `document`, where the store does not tell

    def __len__(self) -> int:
        return len(self.cuts)

    @cached_property
    def start(self) -> np.ndarray:
        """(N,) first token of each row. Of a large corpus ask for some rows: `cuts.at`."""
        return self.cuts.at(np.arange(len(self)))[0]

    @cached_property
    def count(self) -> np.ndarray:
        """(N,) tokens in each row, <= length."""
        return self.cuts.at(np.arange(len(self)))[1]

    @cached_property
    def document(self) -> np.ndarray:
        """(N,) the document in which each row begins."""
        if self.begins_in is not None:
            return self.begins_in
        return np.searchsorted(self.store.ends, self.start, side="right")

    @property
    def shows_ends(self) -> bool:
        """Whether it can be seen, before a token is, where a document ends."""
        return self.by_document or self.packing != "wrap"

    @property
    def scored(self) -> np.ndarray:
        """(N,) tokens of each row that are scored: all, or those of the answer."""
        return self.count if self.given is None else self.count - self.given

    def scored_in(self, index: np.ndarray) -> int:
        """Count the tokens of the rows `index` that are scored."""
        shown = 0 if self.given is None else int(self.given[index].sum())
        return int(self.cuts.at(index)[1].sum()) - shown

    @property
    def scored_tokens(self) -> int:
        """Count the tokens of all rows that are scored; rows share out every token of the store."""
        shown = 0 if self.given is None else int(self.given.sum())
        return len(self.store.tokens) - shown

    def pieces(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the pieces of documents in the rows `index`: (P,) place in `index`, (P,) tokens."""
        ends = self.store.ends
        first, count = self.cuts.at(index)
        last = first + count
        low = np.searchsorted(ends, first, side="right")  # (B,) documents low..high have a piece
        pieces = np.searchsorted(ends, last, side="left") - low + 1  # (B,)
        row = np.repeat(np.arange(len(index)), pieces)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        document = low[row] + nth
        begins = np.where(nth > 0, ends[document - 1], first[row])
        return row, np.minimum(ends[document], last[row]) - begins

    def batch(self, index: np.ndarray) -> Batch:
        """Return the rows `index`: (B,) as a batch."""
        offset = np.arange(self.length)
        start, count = self.cuts.at(index)
        valid = offset < count[:, None]  # (B, L)
        place = np.where(valid, start[:, None] + offset, 0)
        x = np.where(valid, self.store.tokens[place].astype(np.int64), self.pad)
        segment = torch.from_numpy(self._segments(x, valid)) if self.by_document else None
        given = None
        if self.given is not None:
            given = torch.from_numpy(offset < self.given[index, None])
        return Batch(torch.from_numpy(x), torch.from_numpy(valid), segment, given)

    def spread(self, count: int | None = None) -> Batch:
        """Return `count` rows, spread evenly over all; by default, or of fewer, all."""
        count = min(count or len(self), len(self))
        return self.batch(np.arange(count) * len(self) // count)

    def _segments(self, x: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Number the documents within each row from 0, up after each EOS; -1 is padding: (B, L)."""
        ended = np.cumsum(x == self.eos, axis=1)
        before = np.concatenate((np.zeros_like(ended[:, :1]), ended[:, :-1]), axis=1)
        return np.where(valid, before, -1)


def pack(store: TokenStore, vocab: Vocab, length: int, packing: str, attend: str = "row") -> Rows:
    """Cut a store into rows.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> store = TokenStore(np.arange(5), np.array([2, 5]), 0, "")
        >>> pack(store, byte_vocab(), 4, "wrap").count.tolist()
        [4, 1]
        >>> pack(store, byte_vocab(), 4, "document").count.tolist()
        [2, 3]
    """
    total = len(store.tokens)
    cuts: Even | Listed
    if packing == "wrap":
        cuts = Even(total, length)
    elif packing == "document":
        begins = np.concatenate(([0], store.ends[:-1]))
        rows = -(-(store.ends - begins) // length)  # (documents,) rows of each
        nth = np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows, rows)
        start = np.repeat(begins, rows) + nth * length
        cuts = Listed(start, np.minimum(length, np.repeat(store.ends, rows) - start))
    else:
        raise UserError(f"data.packing must be wrap or document, found '{packing}'")
    return Rows(store, cuts, length, vocab.pad, vocab.eos, attend == "document", packing)


MAP_BATCH = 1000  # documents that the published loaders join at a time


def published(store: TokenStore, vocab: Vocab, length: int, workers: int) -> Rows:
    """Cut rows as the published loaders do, which depend on how many workers they have.

    Each worker has an equal run of documents, joins a thousand at a time, cuts rows of L - 2 tokens
    between a BOS and an EOS, which are scored too, and drops what is left over each time.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> store = TokenStore(np.arange(10), np.array([5, 10]), 10, "")
        >>> [len(published(store, byte_vocab(), 5, w)) for w in (1, 2)]
        [3, 2]
    """
    size = length - 2
    if size < 1:
        raise UserError(f"the published packing needs a length of at least 3, found {length}")
    documents = len(store.ends)
    begins = np.concatenate(([0], store.ends))
    rows, first = [], []
    for share in np.array_split(np.arange(documents), workers):
        for low in range(0, len(share), MAP_BATCH):
            part = share[low : low + MAP_BATCH]
            tokens = np.asarray(store.tokens[begins[part[0]] : begins[part[-1] + 1]], np.int64)
            whole = tokens[: len(tokens) // size * size].reshape(-1, size)
            rows.append(np.pad(whole, ((0, 0), (1, 1)), constant_values=vocab.bos))
            first.append(begins[part[0]] + size * np.arange(len(whole)))
    every = np.concatenate(rows)
    if not len(every):
        raise UserError(f"the published packing leaves no row of {length} tokens")
    every[:, -1] = vocab.eos
    ends = np.arange(1, len(every) + 1) * length
    text_bytes = round(store.text_bytes * len(every) * size / len(store.tokens))
    made = TokenStore(every.ravel(), ends, text_bytes, store.key)
    document = np.searchsorted(store.ends, np.concatenate(first), side="right")
    return replace(pack(made, vocab, length, "wrap"), begins_in=document)
