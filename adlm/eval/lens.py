"""Anchors under the lens: how good the anchor network's guesses are, and what poor ones do.

At each masking ratio the masked positions are predicted by the anchor network, by the denoiser
behind it and, for comparison, by a plain model: accuracy, nats, calibration. Then the anchors are
damaged at the bridge by a dial, and the bound is measured against the anchors' accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adlm.data.counts import CorpusCounts
from adlm.device import autocast
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.subs import log_probabilities
from adlm.process.anchors import Anchors
from adlm.process.mask import forbid_mask
from adlm.types import Batch

BINS = 10  # of the calibration error


@dataclass
class Tally:
    """Predictions of one network at many positions."""

    right: list[Tensor]
    nats: list[Tensor]
    sure: list[Tensor]

    @classmethod
    def empty(cls) -> Tally:
        return cls([], [], [])

    def add(self, log_p: Tensor, target: Tensor) -> None:
        """log_p: (N, V), target: (N,)."""
        top = log_p.max(dim=1)
        self.right.append((top.indices == target).cpu())
        self.sure.append(top.values.exp().cpu())
        self.nats.append(-log_p.gather(1, target[:, None]).squeeze(1).cpu())

    def figures(self, chosen: Tensor) -> dict[str, float | int | None]:
        """Accuracy, nats and calibration error at the chosen positions: (N,) bool."""
        right = torch.cat(self.right)[chosen].double()
        if not len(right):
            return {"positions": 0, "accuracy": None, "nats": None, "calibration_error": None}
        return {
            "positions": len(right),
            "accuracy": float(right.mean()),
            "nats": float(torch.cat(self.nats)[chosen].double().mean()),
            "calibration_error": calibration(torch.cat(self.sure)[chosen].double(), right),
        }


def calibration(sure: Tensor, right: Tensor) -> float:
    """Expected calibration error: |confidence - accuracy| over ten equal bins of confidence.

    Example:
        >>> sure = torch.tensor([0.95, 0.95, 0.55, 0.55])
        >>> round(calibration(sure, torch.tensor([1.0, 1.0, 1.0, 0.0])), 3)
        0.05
    """
    place = (sure * BINS).long().clamp(max=BINS - 1)
    count = torch.bincount(place, minlength=BINS).double()
    gap = torch.bincount(place, sure.double() - right.double(), minlength=BINS).abs()
    return float(gap.sum() / count.sum())


def masked(
    batch: Batch, ratio: float, mask: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(z, hidden): (B, L) each, with `ratio` of a row's tokens masked, at least one."""
    keys = torch.rand(batch.x.shape, generator=generator).masked_fill(~batch.valid, 2.0)
    count = (batch.valid.sum(1, keepdim=True) * ratio).round().clamp(min=1)
    hidden = (keys.argsort(1).argsort(1) < count) & batch.valid
    return torch.where(hidden, mask, batch.x), hidden


def segments(batch: Batch) -> Tensor:
    """(B, L) what may see each other: as in training, padding is seen by none."""
    return torch.where(batch.valid, 0, -1) if batch.segment is None else batch.segment


@torch.no_grad()
def by_ratio(
    models: dict[str, Denoiser],
    batches: list[Batch],
    rule: Anchors,
    table: CorpusCounts | None,
    mask: int,
    ratios: list[float],
    seed: int,
    device: str,
    precision: str,
) -> list[dict[str, Any]]:
    """One entry a ratio and network: figures at masked anchors, and at all masked positions."""
    out = []
    for ratio in ratios:
        tallies: dict[str, Tally] = {}
        anchors = []
        generator = torch.Generator().manual_seed(seed)
        for batch in batches:
            z, hidden = masked(batch, ratio, mask, generator)
            anchors.append(rule(batch.x, batch.valid, table)[hidden])
            target = batch.x[hidden].to(device)
            segment, at = segments(batch).to(device), hidden.to(device)
            for name, model in models.items():
                with autocast(precision, device):
                    for label, h, head in states(name, model, z.to(device), segment, at):
                        tally = tallies.setdefault(label, Tally.empty())
                        tally.add(log_probabilities(h, head, mask), target)
        is_anchor = torch.cat(anchors)
        for label, tally in tallies.items():
            every = torch.ones_like(is_anchor)
            out.append(
                {
                    "ratio": ratio,
                    "network": label,
                    "anchors": tally.figures(is_anchor),
                    "all": tally.figures(every),
                }
            )
    return out


def states(
    name: str, model: Denoiser, z: Tensor, segment: Tensor, at: Tensor
) -> Iterator[tuple[str, Tensor, nn.Linear]]:
    """(network, (N, D) states, their head) at the positions `at`."""
    found = model(z, Context(Layout(model.causal, segment), wanted=at))
    if isinstance(model, Anchored) and found.anchor is not None:
        yield "anchor network", found.anchor[at], model.anchor_head
    yield name, found.denoiser, model.head


def bands(
    batches: list[Batch], rule: Anchors, table: CorpusCounts | None, count: int = 5
) -> list[dict[str, Any]]:
    """Share of anchors among tokens by frequency band: from the commonest fifth to the rarest.

    Bands have equal numbers of *occurrences*, so the first has the few commonest words.
    """
    x = torch.cat([b.x[b.valid] for b in batches])
    anchor = torch.cat([rule(b.x, b.valid, table)[b.valid] for b in batches])
    size = int(x.max()) + 1
    often = torch.bincount(x, minlength=size)
    marked = torch.bincount(x, anchor.double(), minlength=size)
    order = often.argsort(descending=True)
    before = often[order].cumsum(0) - often[order]
    band = (before * count // len(x)).clamp(max=count - 1)
    out = []
    for number in range(count):
        tokens = order[(band == number) & (often[order] > 0)]
        uses = int(often[tokens].sum())
        out.append(
            {
                "band": number + 1,
                "different_tokens": len(tokens),
                "occurrences": uses,
                "share_anchors": float(marked[tokens].sum() / uses) if uses else None,
            }
        )
    return out


# --- damage at the bridge: h (B, L, D) -> h, by a dial in [0, 1] ---

Damage = Callable[[Tensor, nn.Linear, float, torch.Generator], Tensor]


def noise(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """Mix with Gaussian noise of the same size, at equal power."""
    drawn = torch.randn(h.shape, generator=generator).to(h) * h.std()
    return (1 - dial**2) ** 0.5 * h + dial * drawn


def shuffle(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """A share of the positions get the anchors of other positions of their row."""
    moved = pick(h, dial, generator)
    keys = torch.rand(h.shape[:2], generator=generator).to(h.device)
    source = keys.argsort(dim=1)
    other = h.gather(1, source[..., None].expand_as(h))
    return torch.where(moved, other, h)


def wrong(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """A share of the positions are sure of a random token: its row of the head, h's length."""
    token = torch.randint(len(head.weight), h.shape[:2], generator=generator).to(h.device)
    forced = head.weight[token].to(h.dtype)
    forced = (
        forced / forced.norm(dim=-1, keepdim=True).clamp(min=1e-9) * h.norm(dim=-1, keepdim=True)
    )
    return torch.where(pick(h, dial, generator), forced, h)


def zero(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """A share of the positions say nothing."""
    return torch.where(pick(h, dial, generator), torch.zeros_like(h), h)


def pick(h: Tensor, dial: float, generator: torch.Generator) -> Tensor:
    """(B, L, 1) positions that are damaged."""
    return (torch.rand(h.shape[:2], generator=generator) < dial).to(h.device)[..., None]


DAMAGES: dict[str, Damage] = {"noise": noise, "shuffle": shuffle, "wrong": wrong, "zero": zero}


class Damaged(nn.Module):
    """A bridge whose input is damaged."""

    def __init__(self, bridge: nn.Module, damage: Damage, dial: float, seed: int):
        super().__init__()
        self.bridge, self.damage, self.dial = bridge, damage, dial
        self.generator = torch.Generator().manual_seed(seed)
        self.seen: list[Tensor] = []  # damaged states of the last pass

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        h = self.damage(h, head, self.dial, self.generator)
        self.seen = [h]
        return self.bridge(h, head, embed)


@contextmanager
def damaged(model: Anchored, name: str, dial: float, seed: int) -> Iterator[Damaged]:
    """The model with damaged anchors, for a while."""
    kept = model.bridge
    made = Damaged(kept, DAMAGES[name], dial, seed)
    model.bridge = made
    try:
        yield made
    finally:
        model.bridge = kept


@torch.no_grad()
def anchor_accuracy(
    model: Anchored,
    bridge: Damaged,
    batches: list[Batch],
    rule: Anchors,
    table: CorpusCounts | None,
    mask: int,
    seed: int,
    device: str,
) -> float:
    """Share of masked anchors that the damaged anchor prediction has right, at ratio 1/2."""
    generator = torch.Generator().manual_seed(seed)
    right = total = 0
    for batch in batches:
        z, hidden = masked(batch, 0.5, mask, generator)
        model(z.to(device), Context(Layout(model.causal, segments(batch).to(device))))
        chosen = hidden & rule(batch.x, batch.valid, table)
        logits = forbid_mask(model.anchor_head(bridge.seen[0][chosen.to(device)].float()), mask)
        right += int((logits.argmax(dim=1).cpu() == batch.x[chosen]).sum())
        total += int(chosen.sum())
    return right / max(1, total)


def correlation(x: list[float], y: list[float]) -> float | None:
    """Pearson's r."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
