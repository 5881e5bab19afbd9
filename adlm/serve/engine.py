"""One thread that does the work: a queue with a limit, and works of one kind done together."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque

from adlm.errors import UserError
from adlm.serve.limits import Refusal, ServeLimits
from adlm.serve.work import ScoreWork, Stopped, Work, WriteWork, write_together

GRACE = 3.0  # seconds in which answers are finished when the server ends
log = logging.getLogger("adlm.serve")


class ServeEngine:
    """The queue and its worker."""

    def __init__(self, limits: ServeLimits):
        self.limits = limits
        self._waiting: deque[Work] = deque()
        self._running: list[Work] = []
        self._changed = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()

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
            self._changed.notify()

    def end(self) -> None:
        """Finish what is queued within the time of grace, and take on nothing more."""
        soon = time.monotonic() + GRACE
        with self._changed:
            self._ending = True
            for work in (*self._waiting, *self._running):
                if work.deadline > soon:
                    work.deadline, work.closing = soon, True
            self._changed.notify()

    def join(self) -> None:
        """Wait until the worker has stopped, at most a second beyond the time of grace."""
        self.end()
        self._thread.join(GRACE + 1)

    def _loop(self) -> None:
        while batch := self._take():
            try:
                _run(batch)
            except Stopped:
                pass
            except Exception as error:
                refusal = as_refusal(error)
                for work in batch:
                    work.post(refusal)
            with self._changed:
                self._running = []

    def _take(self) -> list[Work]:
        """Wait for the first work, and take those of its key along; nothing at the end."""
        with self._changed:
            while True:
                while self._waiting and self._waiting[0].over():
                    self._waiting.popleft()
                if self._waiting:
                    break
                if self._ending:
                    return []
                self._changed.wait()
            first = self._waiting.popleft()
            key, self._running, rest = first.key, [first], deque[Work]()
            room = self.limits.texts - first.size
            for work in self._waiting:
                if key is None or work.key != key or work.size > room:
                    rest.append(work)
                elif not work.over():
                    self._running.append(work)
                    room -= work.size
            self._waiting = rest
            return list(self._running)


def _run(batch: list[Work]) -> None:
    """Do works of one key."""
    if isinstance(batch[0], ScoreWork):
        batch[0].run()
    else:
        write_together([w for w in batch if isinstance(w, WriteWork)])


def as_refusal(error: Exception) -> Refusal:
    """Return the answer for what went wrong; a user's error is one sentence without dashes."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, UserError):
        return Refusal(400, re.sub(r"--(draw\.)?(?=\w)", "", str(error)))
    log.error("a request failed", exc_info=error)
    return Refusal(500, "the server failed at this request; its log says more")
