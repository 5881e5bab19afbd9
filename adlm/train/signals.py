"""Ctrl-C and SIGTERM (or Ctrl-Break) ask the loop to finish its step, save and leave."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from adlm.system import stops


class StopFlag:
    """Inside the context the first signal only raises the flag; a second one acts as usual."""

    def __init__(self) -> None:
        self.raised = 0  # the signal's number
        self._old: dict[int, object] = {}

    def __enter__(self) -> StopFlag:
        if threading.current_thread() is threading.main_thread():
            for number in stops():
                self._old[number] = signal.signal(number, self._catch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.raised = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old = {}
