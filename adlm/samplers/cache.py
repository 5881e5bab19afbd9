"""What a canvas keeps of earlier passes, and which positions the next pass renews.

    none     every pass is over the whole window
    prefix   a block and what is right of it; keys and values left of it are kept
    dual     the block alone
    delayed  masks, and tokens in the step after they were written; older tokens are kept

What is kept was seen in a text that has changed since, so these are approximations. Every `every`
steps, and when a block begins, a row is passed in full; with `every` 1 all equal `none`. Neighbours
that a short convolution sees outside the pass are those of their own last pass, too.

With `anchor_every` K an anchored network's anchor trunk runs every K steps, the denoiser each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser, States
from adlm.nn.cache import Cache, RowBlock, RowCache
from adlm.values import check_sizes

NEVER = -(10**9)


@dataclass(frozen=True)
class CacheSettings:
    """What is kept between steps of a model of whole rows.

    Attributes:
        kind: none (exact), prefix, dual or delayed; --cache is short for it.
        every: Steps after which everything is renewed; 1 is exact.
        block: Tokens of a block of prefix and dual, from left to right (blocks has its own).
    """

    kind: Literal["none", "prefix", "dual", "delayed"] = "none"
    every: int = 16
    block: int = 32

    def __post_init__(self) -> None:
        check_sizes(self, "--cache.", 1, every=10**6, block=10**6)

    @property
    def exact(self) -> bool:
        """Whether texts are those without a cache."""
        return self.kind == "none" or self.every == 1

    @property
    def in_blocks(self) -> bool:
        """Whether it needs a text to be written block after block."""
        return self.kind in ("prefix", "dual")


class Pass(NamedTuple):
    """One call of the network."""

    rows: np.ndarray  # (n,)
    at: np.ndarray | None  # (S,) or (n, S) positions of the window; None: all of them
    anchors: bool  # does the anchor trunk run?


@dataclass
class Memory:
    """States, keys and values of the rows of a canvas, each from its last pass."""

    rows: int
    length: int
    settings: CacheSettings
    anchor_every: int = 1
    hidden: Tensor | None = field(init=False, default=None)  # (B, L, D) the denoiser's states
    anchor: Tensor | None = field(init=False, default=None)  # (B, L, D) the anchor network's
    bridged: Tensor | None = field(init=False, default=None)  # (B, L, D) what it gave the denoiser
    kept: RowCache | None = field(init=False, default=None)
    renewed: np.ndarray = field(init=False)  # (B,) step of the last pass over all positions
    anchored: np.ndarray = field(init=False)  # (B,) and of that of the anchor trunk

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Let the next pass of every row be a full one."""
        self.kept = None
        self.renewed = np.full(self.rows, NEVER)
        self.anchored = np.full(self.rows, NEVER)

    @property
    def exact(self) -> bool:
        """Whether nothing old is ever shown to the network."""
        return self.settings.exact and self.anchor_every == 1

    def plan(
        self, wanted: np.ndarray, passed: np.ndarray, block: slice, window: slice, step: int
    ) -> Iterator[Pass]:
        """Yield the passes of the wanted rows, (B,) bool: mostly one.

        passed: (B, L) bool, the positions that the delayed cache renews.
        """
        due = step - self.renewed >= self.settings.every
        due |= self.settings.exact
        fresh = step - self.anchored >= self.anchor_every
        fresh |= (self.anchor_every == 1) | (due & (not self.settings.exact))
        for full, anchors in ((True, True), (True, False), (False, True), (False, False)):
            rows = np.flatnonzero(wanted & (due == full) & (fresh == anchors))
            if not len(rows):
                continue
            at = None if full else self.part(passed[rows][:, window], block, window)
            self.renewed[rows] = step if at is None else self.renewed[rows]
            self.anchored[rows] = step if anchors else self.anchored[rows]
            yield Pass(rows, at, anchors)

    def part(self, passed: np.ndarray, block: slice, window: slice) -> np.ndarray | None:
        """The positions of the window, (S,) or (n, S), that are not taken from memory.

        Rows that have fewer name one of theirs again, which changes nothing.
        """
        total, start = passed.shape[1], window.start or 0
        if self.settings.in_blocks:
            low, high, _ = block.indices(self.length)
            end = high - start if self.settings.kind == "dual" else total
            return None if end - (low - start) == total else np.arange(low - start, end)
        count = passed.sum(axis=1)[:, None]  # (n, 1)
        if count.max() == total:
            return None
        order = np.argsort(~passed, axis=1, kind="stable")[:, : count.max()]
        return np.where(np.arange(count.max()) < count, order, order[:, :1])

    def shown(self, model: Denoiser, rows: Tensor | None, at: Tensor | None) -> Cache | None:
        """The keys and values that a pass is shown."""
        if self.settings.kind == "none":
            return None
        if self.kept is None:
            self.kept = RowCache([RowBlock() for _ in model.new_cache().blocks])
        return self.kept.part(rows, at)

    def earlier(self, rows: Tensor, columns: Tensor, anchors: bool) -> Tensor | None:
        """What the anchor network said in an earlier pass, (n, S, D), where it does not run."""
        if anchors or self.bridged is None:
            return None
        return self.bridged[rows[:, None], columns]

    def keep(self, rows: Tensor, columns: Tensor, states: States) -> None:
        """Remember the states of rows, (n,), at columns, (S,) or (n, S)."""
        self.hidden = self.stored(self.hidden, rows, columns, states.denoiser)
        if states.anchor is not None:
            self.anchor = self.stored(self.anchor, rows, columns, states.anchor)
        if states.bridged is not None and self.anchor_every > 1:
            self.bridged = self.stored(self.bridged, rows, columns, states.bridged)

    def stored(self, store: Tensor | None, rows: Tensor, columns: Tensor, h: Tensor) -> Tensor:
        h = h.to(rows.device)
        if store is None:
            dtype = torch.promote_types(h.dtype, torch.float32)
            store = h.new_zeros(self.rows, self.length, h.shape[-1], dtype=dtype)
        store[rows[:, None], columns] = h.to(store.dtype)
        return store


def anchor_every(model: Denoiser, every: int) -> int:
    """K, which is 1 where there is no anchor network."""
    return every if isinstance(model, Anchored) else 1
