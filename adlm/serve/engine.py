"""The threads that do the work: a queue with a limit, and works of one kind done together.

A small network's products are too small to be shared by cores, which wait for each other after
each of them, and for whatever else runs there. So on a CPU every core writes a batch of its own,
and each batch gets its share of what waits. A batch that is taken the moment another one is done
would miss that one's clients, who are just reading their answers: they are waited for, shortly.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterable

import torch

from adlm.api import Model
from adlm.errors import UserError
from adlm.serve.limits import Refusal, ServeLimits
from adlm.serve.work import ScoreWork, Stopped, Work, WriteWork, write_together

GRACE = 3.0  # seconds in which answers are finished when the server ends
BACK = 0.1, 0.05  # a batch's clients are waited for: share of the time it took, seconds at most
SMALL = 50_000_000  # parameters up to which a batch has one core of its own
log = logging.getLogger("adlm.serve")


class ServeEngine:
    """The queue and its workers."""

    def __init__(self, limits: ServeLimits, workers: int = 1):
        self.limits, self.workers = limits, workers
        self._waiting: deque[Work] = deque()
        self._running: list[Work] = []
        self._changed = threading.Condition()
        self._ending = False
        made = (threading.Thread(target=self._loop, daemon=True) for _ in range(workers))
        self._threads = list(made)
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> int:
        """How many texts wait or are being written."""
        with self._changed:
            return sum(w.size for w in (*self._waiting, *self._running))

    def submit(self, work: Work) -> None:
        """Queue a work, or refuse it where too many wait."""
        with self._changed:
            if self._ending:
                raise Refusal(503, "the server is ending")
            waiting = sum(w.size for w in self._waiting if not w.gone)
            if waiting + work.size > self.limits.queue:
                raise Refusal(429, f"{waiting} texts are waiting already: try again soon")
            self._waiting.append(work)
            self._changed.notify_all()

    def end(self) -> None:
        """Finish what is queued within the time of grace, and take on nothing more."""
        soon = time.monotonic() + GRACE
        with self._changed:
            self._ending = True
            for work in (*self._waiting, *self._running):
                if work.deadline > soon:
                    work.deadline, work.closing = soon, True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the workers have stopped, at most a second beyond the time of grace."""
        self.end()
        until = time.monotonic() + GRACE + 1
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _loop(self) -> None:
        if self.workers > 1:
            torch.set_num_threads(1)  # of this thread's products
        count, wait = 0, 0.0
        while batch := self._take(count, wait):
            began = time.monotonic()
            try:
                _run(batch)
            except Stopped:
                pass
            except Exception as error:
                refusal = as_refusal(error)
                for work in batch:
                    work.post(refusal)
            share, most = BACK
            count, wait = len(batch), min(most, share * (time.monotonic() - began))
            with self._changed:
                self._running = [w for w in self._running if w not in batch]

    def _take(self, count: int, wait: float) -> list[Work]:
        """Wait for the first work, and take those of its key along; nothing at the end.

        After a batch of `count` works, so many are waited for; at most `wait` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) >= count or self._ending, wait)
            while True:
                while self._waiting and self._waiting[0].over():
                    self._waiting.popleft()
                if self._waiting:
                    break
                if self._ending:
                    return []
                self._changed.wait()
            first = self._waiting.popleft()
            key, batch, rest = first.key, [first], deque[Work]()
            room = self._share(first) - first.size
            for work in self._waiting:
                if key is None or work.key != key or work.size > room:
                    rest.append(work)
                elif not work.over():
                    batch.append(work)
                    room -= work.size
            self._waiting = rest
            self._running += batch
            if rest:
                self._changed.notify_all()
            return batch

    def _share(self, first: Work) -> int:
        """Return how many texts a batch may have: no more than its worker's part of all."""
        every = first.size + sum(w.size for w in (*self._waiting, *self._running))
        return min(self.limits.texts, -(-every // self.workers))


def _run(batch: list[Work]) -> None:
    """Do works of one key."""
    if isinstance(batch[0], ScoreWork):
        batch[0].run()
    else:
        write_together([w for w in batch if isinstance(w, WriteWork)])


def workers_for(models: Iterable[Model]) -> int:
    """Return how many batches are written at once: one a core where all models are small."""
    cpu = all(m.device == "cpu" and count_of(m) <= SMALL for m in models)
    return torch.get_num_threads() if cpu else 1


def count_of(model: Model) -> int:
    """Return how many parameters a model has."""
    return sum(p.numel() for p in model.network.parameters())


def as_refusal(error: Exception) -> Refusal:
    """Return the answer for what went wrong; a user's error is one sentence without dashes."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, UserError):
        return Refusal(400, re.sub(r"--(draw\.)?(?=\w)", "", str(error)))
    log.error("a request failed", exc_info=error)
    return Refusal(500, "the server failed at this request; its log says more")
