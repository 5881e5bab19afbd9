"""What the engine does for a request: writing or scoring, and the way back to who waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from adlm.data.cache import TokenStore
from adlm.data.pack import Rows, pack
from adlm.objectives.likelihood import evaluator, length_nats, token_nats
from adlm.samplers.canvas import Canvas
from adlm.samplers.choice import chosen, find_way
from adlm.samplers.generate import write
from adlm.samplers.random import RowRandom
from adlm.samplers.settings import SamplingSettings
from adlm.samplers.trace import Event, Trace
from adlm.serve.limits import Refusal
from adlm.serve.served import Served


class Stopped(Exception):
    """Nobody waits for the work any more."""


class Step(NamedTuple):
    """A step that is done, and what it changed in each row."""

    number: int
    events: list[list[Event]]


class WrittenRows(NamedTuple):
    """Finished rows."""

    tokens: np.ndarray  # (n, L)
    ends: np.ndarray  # (n,) tokens up to the end of the text
    probability: np.ndarray  # (n, L) of each token when it was written
    trace: Trace | None


class ScoredTexts(NamedTuple):
    """ScoredTexts texts."""

    nats: list[np.ndarray]  # of each text: (tokens,), its end included
    pieces: list[list[str]]
    length_nats: np.ndarray  # (texts,)
    exact: bool


Item = Step | WrittenRows | ScoredTexts | Exception


@dataclass(eq=False, kw_only=True)
class Work:
    """A request's work, whose items arrive one after the other; the last is no Step."""

    served: Served
    size: int  # in texts
    deadline: float  # by time.monotonic
    gone: bool = False  # does nobody wait any more?
    ended: bool = False
    closing: bool = False  # is the deadline the server's end?
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _items: asyncio.Queue[Item] = field(default_factory=asyncio.Queue)

    @property
    def key(self) -> Hashable:
        """Works of one key are done together; None: alone."""
        return None

    def post(self, item: Item) -> None:
        """Hand an item over, from the engine's thread."""
        self.ended |= not isinstance(item, Step)
        if not self.gone and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    def leave(self) -> None:
        """Wait no longer."""
        self.gone = True
        self._items.put_nowait(Stopped("the client has gone"))

    async def next(self) -> Item:
        """Wait for the next item; what went wrong is raised."""
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        return item

    def over(self) -> bool:
        """Tell whether to go on; who waits too long is told so."""
        if not self.ended and not self.gone and time.monotonic() > self.deadline:
            why = "the server is ending" if self.closing else "the answer took too long"
            self.post(Refusal(503 if self.closing else 504, f"{why}: ask for less, or later"))
        return self.gone or self.ended

    def check(self) -> None:
        """Raise Stopped where there is no need to go on."""
        if self.over():
            raise Stopped


@dataclass(eq=False, kw_only=True)
class WriteWork(Work):
    """Rows to be written; each is the same as if it were alone."""

    template: np.ndarray  # (n, L)
    seeds: list[tuple[int, int]]
    settings: SamplingSettings
    steps: bool = False  # are steps handed over too?
    about: str = ""  # what a record of them, with anchors, is headed by; none is kept without it
    trace: Trace | None = None
    ragged: bool = field(init=False)  # may rows beside it have other lengths and holes?

    def __post_init__(self) -> None:
        name, config = self.settings.sampler or "", self.served.model.config
        self.ragged = name == "causal" or find_way(name, config, self.settings).ragged
        if self.steps:
            self.trace = Trace(self.template[0], self.served.model.vocab, about=self.about)

    @property
    def key(self) -> Hashable:
        """Rows of one model and sampler, of similar lengths where the sampler takes them so.

        Where blocks are written in turn, what a row draws depends on its holes: rows that differ
        there would change each other's text.
        """
        how = self.settings
        where: Hashable = (self.template == self.served.model.vocab.mask)[0].tobytes()
        if self.ragged:
            where = self.template.shape[1].bit_length()
        options = tuple(sorted(how.policy.items()))
        kept = (how.cache, how.anchor_every)
        return self.served.id, how.sampler, how.steps, options, how.draw, kept, where

    @property
    def last(self) -> int:
        """Its last step; a row beside it may take more."""
        if self.settings.sampler == "first-hitting":
            return int((self.template[0] == self.served.model.vocab.mask).sum())
        asked = None if self.settings.sampler == "causal" else self.settings.steps
        return asked or self.template.shape[1]

    def see(self, number: int, z: Tensor, probability: Tensor) -> None:
        """Note a step of its rows: (n, L) each."""
        length = self.template.shape[1]
        if self.trace is None or (self.ragged and number > self.last):
            return
        known = [len(row) for row in self.trace.events] or [0] * len(z)
        self.trace.see(number, z[:, :length], probability[:, :length])
        rows = zip(self.trace.events, known, strict=True)
        self.post(Step(number, [row[start:] for row, start in rows]))

    def finish(self, canvas: Canvas, place: slice) -> None:
        """Hand over its part of what was written."""
        length, model = self.template.shape[1], self.served.model
        tokens = canvas.z[place, :length].cpu().numpy()
        ends = np.full(len(tokens), length)
        if model.config.data.packing != "wrap":  # nothing after the end was ever trained
            ended = tokens == model.vocab.eos
            ended[:, 0] &= not model.config.data.compat  # BOS, which may be the same token
            ends = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, length)
        if self.trace is not None and self.about:
            self.trace.mark_anchors(model.network, model.config, model.counts)
        sure = canvas.probability[place, :length].cpu().numpy()
        self.post(WrittenRows(tokens, ends, sure, self.trace))


def write_together(works: list[WriteWork]) -> None:
    """Write the rows of several works on one canvas; those that are over are passed no more."""
    model = works[0].served.model
    ends = np.cumsum([w.size for w in works]).tolist()
    places = [slice(end - w.size, end) for w, end in zip(works, ends, strict=True)]

    def watch(number: int, canvas: Canvas) -> None:
        now = canvas.z.cpu()
        for work, place in zip(works, places, strict=True):
            if work.over():
                canvas.frozen[place] = True
            else:
                work.see(number, now[place], canvas.probability[place])
        if all(w.gone or w.ended for w in works):
            raise Stopped

    settings = works[0].settings
    sampler = chosen(model.config, settings, max(w.template.shape[1] for w in works))
    policy = None if sampler == "causal" else find_way(sampler, model.config, settings)
    templates = [row for w in works for row in w.template]
    random = RowRandom.of(pair for w in works for pair in w.seeds)
    how = (templates, random, settings, policy, model.device, watch)
    canvas = write(model.network, model.config, model.vocab, *how)
    for work, place in zip(works, places, strict=True):
        if not work.over():
            work.finish(canvas, place)


@dataclass(eq=False, kw_only=True)
class ScoreWork(Work):
    """Texts to be scored."""

    ids: list[np.ndarray]  # of each text, its end included
    draws: int
    seed: int

    def run(self) -> None:
        """Score each token, and hand the figures over."""
        model = self.served.model
        objective = evaluator(model.config, model.vocab, model.counts)
        store = TokenStore(np.concatenate(self.ids), np.cumsum([len(i) for i in self.ids]), 0, "")
        rows = pack(store, model.vocab, model.config.data.length, "document")
        how = (self.draws, self.seed, model.device, self.check)
        nats = token_nats(model.network.eval(), objective, rows, *how)
        lengths: np.ndarray = np.zeros(len(self.ids))
        if not objective.exact:
            coded = length_nats(rows, np.arange(len(rows)), model.lengths)
            lengths = np.bincount(rows.document, coded, minlength=len(self.ids))
        pieces = [model.vocab.pieces(ids.tolist()) for ids in self.ids]
        self.post(ScoredTexts(by_text(nats, rows, len(self.ids)), pieces, lengths, objective.exact))


def by_text(nats: np.ndarray, rows: Rows, count: int) -> list[np.ndarray]:
    """Put rows, (R, L), together to texts: (tokens,) each."""
    parts: list[list[np.ndarray]] = [[] for _ in range(count)]
    for row, text in enumerate(rows.document.tolist()):
        parts[text].append(nats[row, : rows.count[row]])
    return [np.concatenate(p) for p in parts]
