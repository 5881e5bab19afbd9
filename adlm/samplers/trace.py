"""The record of a run: which token was written where, at which step, and what was taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.process.anchors import Anchors, on_cpu
from adlm.samplers.base import Canvas


class Event(NamedTuple):
    """A change of one position; the token is None where it was taken back."""

    step: int
    position: int
    token: int | None
    probability: float


@dataclass
class Trace:
    """Give it to a sampler as its `watch`."""

    template: np.ndarray  # (L,)
    vocab: Vocab
    events: list[list[Event]] = field(default_factory=list)  # of each row
    steps: int = 0
    anchors: np.ndarray | None = None  # (n, L) bool: which of the final tokens are anchors
    about: str = ""  # one line: model, sampler, settings
    _first: int = 0  # row of the canvas's first
    _last: Tensor | None = None  # (B, L)

    def __call__(self, number: int, canvas: Canvas) -> None:
        now = canvas.z.cpu()
        self.steps = max(self.steps, number)
        if number == 0:
            self._first = len(self.events)
            self.events += [[] for _ in now]
        else:
            assert self._last is not None
            for row, position in (now != self._last).nonzero().tolist():
                token: int | None = int(now[row, position])
                token = None if token == canvas.mask else token
                sure = float(canvas.probability[row, position])
                self.events[self._first + row].append(Event(number, position, token, sure))
        self._last = now

    def tokens(self, row: int, step: int | None = None) -> np.ndarray:
        """(L,) the row after a step; after the last by default."""
        z = self.template.copy()
        for event in self.events[row]:
            if step is None or event.step <= step:
                z[event.position] = self.vocab.mask if event.token is None else event.token
        return z

    def mark_anchors(self, model: Denoiser, config: Config) -> None:
        """Find the anchors among the final tokens by the checkpoint's own rule."""
        x = torch.from_numpy(np.stack([self.tokens(row) for row in range(len(self.events))]))
        table = model.table() if isinstance(model, Anchored) else None
        rule = Anchors(config.anchor, self.vocab)
        if rule.reads_table and table is None:
            return  # the counts are not in this checkpoint
        self.anchors = rule(x, torch.ones_like(x, dtype=torch.bool), on_cpu(table)).numpy()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; token texts once each."""
        used = {int(t) for t in self.template} | {
            e.token for row in self.events for e in row if e.token is not None
        }
        return {
            "about": self.about,
            "steps": self.steps,
            "mask": self.vocab.mask,
            "template": self.template.tolist(),
            "pieces": {str(t): self.vocab.piece(t) for t in sorted(used - {self.vocab.mask})},
            "rows": [[[*e[:3], round(e.probability, 4)] for e in row] for row in self.events],
            "anchors": None if self.anchors is None else self.anchors.astype(int).tolist(),
        }
