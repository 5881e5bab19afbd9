"""Anchors under the lens: how good the anchor network's guesses are, and what poor ones do.

At each masking ratio the masked positions are predicted by the anchor network, by the denoiser
behind it and, for comparison, by a plain model: accuracy, nats, calibration. Then the anchors are
damaged at the bridge by a dial (`damage.py`), and the bound is measured against the anchors'
accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.data.counts import CorpusCounts
from adlm.device import autocast
from adlm.eval.damage import Damaged
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.objectives.subs import log_probabilities
from adlm.process.anchors import Anchors
from adlm.process.kernel import Kernel
from adlm.process.mask import forbid_mask
from adlm.types import Batch

BINS = 10  # of the calibration error


@dataclass(frozen=True)
class Predictions:
    """How well one network predicts at some positions."""

    positions: int
    accuracy: float | None
    nats: float | None
    calibration_error: float | None


@dataclass(frozen=True)
class RatioFigures:
    """One network at one masking ratio: at masked anchors, and at all masked positions."""

    ratio: float
    network: str
    anchors: Predictions
    all: Predictions


@dataclass(frozen=True)
class Band:
    """Tokens of like frequency."""

    band: int
    different_tokens: int
    occurrences: int
    share_anchors: float | None


@dataclass(frozen=True)
class PredictionTally:
    """Predictions of one network at many positions, batch by batch."""

    right: list[Tensor] = field(default_factory=list)
    nats: list[Tensor] = field(default_factory=list)
    sure: list[Tensor] = field(default_factory=list)

    def add(self, log_p: Tensor, target: Tensor) -> None:
        """log_p: (N, V), target: (N,)."""
        top = log_p.max(dim=1)
        self.right.append((top.indices == target).cpu())
        self.sure.append(top.values.exp().cpu())
        self.nats.append(-log_p.gather(1, target[:, None]).squeeze(1).cpu())

    def figures(self, chosen: Tensor) -> Predictions:
        """Accuracy, nats and calibration error at the chosen positions: (N,) bool."""
        right = torch.cat(self.right)[chosen].double()
        if not len(right):
            return Predictions(0, None, None, None)
        nats = torch.cat(self.nats)[chosen].double()
        error = calibration(torch.cat(self.sure)[chosen].double(), right)
        return Predictions(len(right), float(right.mean()), float(nats.mean()), error)


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


def states(
    name: str,
    model: Denoiser,
    z: Tensor,
    x: Tensor,
    segment: Tensor,
    at: Tensor,
    sigma: Tensor | None = None,
) -> Iterator[tuple[str, Tensor, nn.Linear]]:
    """(network, (N, D) states, their head) at the positions `at` of z; x are the clean tokens.

    sigma: (B, L) the noise level, for a network that sees it.
    """
    seen, layout = model.shown(z, x, segment)
    more = (0, seen.shape[1] - at.shape[1])  # clean tokens beside, without noise
    at = F.pad(at, more)
    sigma = None if sigma is None else F.pad(sigma, more)
    found = model(seen, Context(layout, sigma, wanted=at))
    if isinstance(model, Anchored) and found.anchor is not None:
        yield "anchor network", found.anchor[at], model.anchor_head
    yield name, found.denoiser, model.head


@dataclass(frozen=True)
class Lens:
    """The rows that are looked at, and what counts as an anchor in them."""

    batches: list[Batch]
    rule: Anchors
    table: CorpusCounts | None
    mask: int
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"
    told: dict[str, Kernel] = field(default_factory=dict)  # networks that see the noise level

    def sigma(self, name: str, ratio: float, like: Tensor) -> Tensor | None:
        """(B, L) what the network `name` is told where so much is masked."""
        if name not in self.told:
            return None
        level = self.told[name].level(torch.tensor(1 - ratio))
        return level.expand(like.shape).to(self.device)

    @torch.no_grad()
    def by_ratio(
        self, models: dict[str, Denoiser], ratios: tuple[float, ...]
    ) -> list[RatioFigures]:
        """Look at the predictions of networks by masking ratio."""
        out = []
        for ratio in ratios:
            tallies: dict[str, PredictionTally] = {}
            anchors = []
            generator = torch.Generator().manual_seed(self.seed)
            for batch in self.batches:
                z, hidden = masked(batch, ratio, self.mask, generator)
                anchors.append(self.rule(batch.x, batch.valid, self.table)[hidden])
                target = batch.x[hidden].to(self.device)
                given = (z, batch.x, segments(batch), hidden)
                shown, x, segment, at = (tensor.to(self.device) for tensor in given)
                for name, model in models.items():
                    with autocast(self.precision, self.device):
                        sigma = self.sigma(name, ratio, z)
                        for label, h, head in states(name, model, shown, x, segment, at, sigma):
                            log_p = log_probabilities(h, head, self.mask)
                            tallies.setdefault(label, PredictionTally()).add(log_p, target)
            chosen = torch.cat(anchors)
            every = torch.ones_like(chosen)
            for label, tally in tallies.items():
                found = tally.figures(chosen), tally.figures(every)
                out.append(RatioFigures(ratio, label, *found))
        return out

    def bands(self, count: int = 5) -> list[Band]:
        """Share of anchors among tokens by frequency band: from the commonest fifth to the rarest.

        Bands have equal numbers of *occurrences*, so the first has the few commonest words.
        """
        x = torch.cat([b.x[b.valid] for b in self.batches])
        anchor = torch.cat([self.rule(b.x, b.valid, self.table)[b.valid] for b in self.batches])
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
            share = float(marked[tokens].sum() / uses) if uses else None
            out.append(Band(number + 1, len(tokens), uses, share))
        return out

    @torch.no_grad()
    def anchor_accuracy(self, model: Anchored, bridge: Damaged) -> float:
        """Share of masked anchors that the damaged anchor prediction has right, at ratio 1/2."""
        generator = torch.Generator().manual_seed(self.seed)
        right = total = 0
        for batch in self.batches:
            z, hidden = masked(batch, 0.5, self.mask, generator)
            seen, layout = model.shown(z, batch.x, segments(batch).to(self.device))
            sigma = self.sigma("denoiser", 0.5, z)
            sigma = None if sigma is None else F.pad(sigma, (0, seen.shape[1] - z.shape[1]))
            model(seen.to(self.device), Context(layout, sigma))
            chosen = hidden & self.rule(batch.x, batch.valid, self.table)
            states = bridge.seen[0][:, : z.shape[1]][chosen.to(self.device)].float()
            logits = forbid_mask(model.anchor_head(states), self.mask)
            right += int((logits.argmax(dim=1).cpu() == batch.x[chosen]).sum())
            total += int(chosen.sum())
        return right / max(1, total)
