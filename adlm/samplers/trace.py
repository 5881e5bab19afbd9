"""The record of a run: which token was written where, at which step, and what was taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from adlm import registry
from adlm.config import AnchorConfig, Config
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.process.anchors import Anchors
from adlm.process.kernel import make_kernel
from adlm.process.mask import forbid_mask
from adlm.process.schedule import make_schedule
from adlm.samplers.canvas import Canvas
from adlm.values import to_text

RARE = 0.3  # share of all tokens that the rarest ones make up


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
    rule: str = ""  # what is coloured: a word for it, a colon, how it is found
    _first: int = 0  # row of the canvas's first
    _last: Tensor | None = None  # (B, L)

    def __call__(self, number: int, canvas: Canvas) -> None:
        self.see(number, canvas.z.cpu(), canvas.probability)

    def see(self, number: int, now: Tensor, probability: Tensor) -> None:
        """Note what a step has changed; now, probability: (B, L)."""
        self.steps = max(self.steps, number)
        if number == 0:
            self._first = len(self.events)
            self.events += [[] for _ in now]
            self._last = torch.from_numpy(self.template).expand_as(now)
        assert self._last is not None
        for row, position in (now != self._last).nonzero().tolist():
            token: int | None = int(now[row, position])
            token = None if token == self.vocab.mask else token
            sure = float(probability[row, position])
            self.events[self._first + row].append(Event(number, position, token, sure))
        self._last = now

    def tokens(self, row: int, step: int | None = None) -> np.ndarray:
        """(L,) the row after a step; after the last by default."""
        z = self.template.copy()
        for event in self.events[row]:
            if step is None or event.step <= step:
                z[event.position] = self.vocab.mask if event.token is None else event.token
        return z

    def mark_anchors(
        self, model: Denoiser, config: Config, counts: CorpusCounts | None = None
    ) -> None:
        """Find the anchors among the final tokens by the checkpoint's own rule.

        In short rows the paper's rule takes nearly every token. Where more than half would be
        anchors, those are shown that the model itself holds for the rarest.
        """
        x = torch.from_numpy(np.stack([self.tokens(row) for row in range(len(self.events))]))
        every = torch.ones_like(x, dtype=torch.bool)
        name = config.anchor.rule
        own = Anchors(config.anchor, self.vocab) if registry.at_hand("anchors", name) else None
        # the counts may be missing in this checkpoint
        if own and (counts is not None or not own.reads_table):
            chosen = own(x, every, counts)
            self.rule = f"anchor: by the rule {name}"
            self.anchors = chosen.numpy()
            if chosen.float().mean() <= 0.5:
                return
        rare = Anchors(AnchorConfig(rule="corpus", share=RARE), self.vocab)
        process, mask = config.process, self.vocab.mask
        kernel = make_kernel(process.kernel, make_schedule(process.schedule), mask, self.vocab.size)
        told = kernel.level(torch.zeros(1)) if process.conditioned else None
        blank = process.kernel != "uniform"
        self.anchors = rare(x, every, expected(model, x, mask, told, blank)).numpy()
        self.rule = f"rare: the rarest {RARE:.0%} of what the model writes"
        if not own:
            self.rule += f" (its own rule is code outside adlm: --use {name})"

    def letters(self, row: int) -> dict[str, str]:
        """position -> text, where a final token alone is no text but one with its neighbours."""
        tokens = self.tokens(row).tolist()
        found = enumerate(zip(tokens, self.vocab.pieces(tokens), strict=True))
        return {str(at): text for at, (t, text) in found if text != self.vocab.piece(t)}

    def to_json(self) -> str:
        """JSON text; token texts once each, and where letters are made of several tokens.

        `letters` has, for each row, the text at those of its final positions.
        """
        used = {int(t) for t in self.template} | {
            e.token for row in self.events for e in row if e.token is not None
        }
        values = {
            "about": self.about,
            "steps": self.steps,
            "mask": self.vocab.mask,
            "template": self.template.tolist(),
            "pieces": {str(t): self.vocab.piece(t) for t in sorted(used - {self.vocab.mask})},
            "letters": [self.letters(row) for row in range(len(self.events))],
            "rows": [[[*e[:3], round(e.probability, 4)] for e in row] for row in self.events],
            "rule": self.rule,
            "anchors": None if self.anchors is None else self.anchors.astype(int).tolist(),
        }
        return to_text(values)


@torch.no_grad()
def expected(
    model: Denoiser, x: Tensor, mask: int, sigma: Tensor | None = None, blank: bool = True
) -> CorpusCounts:
    """Return how often the model expects each token on a blank page.

    A causal one is asked after the texts, block diffusion for a blank block after them. Where noise
    is never the mask (not `blank`), the texts are shown as if they were noise.
    """
    shown = model.causal or not blank
    z = x if shown else torch.full_like(x if model.block else x[:1], mask)
    device = model.embed.weight.device
    seen, layout = model.shown(z, x)
    context = Context(layout, None if sigma is None else sigma.to(device))
    logits = model.logits(seen.to(device), context)[:, : x.shape[1]]
    logits = forbid_mask(logits.float(), mask)
    share = logits.softmax(-1).mean(dim=(0, 1)).cpu().double()  # (V,)
    return CorpusCounts(share, share, torch.tensor(1.0, dtype=torch.float64))
