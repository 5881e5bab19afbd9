"""Masked diffusion (MDLM): an upper bound on -log p(x), tight only for a perfect denoiser.

    NELBO = E_t E_{z_t ~ q(.|x)} [ weight(t) * sum_{l: z_t^l = m} -log <x_theta^l(z_t), x^l> ]

with weight -alpha'/(1 - alpha) in continuous time, T (alpha_s - alpha_t)/(1 - alpha_t) with T
discrete steps, and n/k with exactly k of n tokens hidden. Training may draw other times, weigh rows
otherwise and take each row with a mask and its complement (`process.times`, `process.weight`,
`process.complement`); `of_bound` is the configuration that scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from adlm import registry
from adlm.config import Config, ProcessConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.base import Objective
from adlm.process.mask import discrete, turned
from adlm.process.reverse import noise_level
from adlm.process.schedule import check_end, make_schedule
from adlm.process.times import Times, make_times
from adlm.process.weight import make_weight
from adlm.registry import register
from adlm.types import Batch, Noise, Noised, View


@register("objective", "mdlm")
class MaskedDiffusion(Objective):
    """Restore all hidden tokens at once."""

    causal = False
    exact = False
    knows: ClassVar[tuple[str, ...]] = ("complement",)

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        process = config.process
        self.schedule = make_schedule(process.schedule)
        self.times = make_times(process.times)
        self.weight = make_weight(process.weight)
        self.masking = registry.lookup("masking", process.masking)
        self.steps, self.eps, self.remask = process.steps, process.eps, process.remask
        self.conditioned = process.conditioned
        exact_k = process.masking == "exact-k"
        if process.kernel != "mask":
            raise UserError(
                f"the objective {config.objective} hides tokens: process.kernel must be mask, "
                f"found '{process.kernel}'"
            )
        if exact_k and self.steps:
            raise UserError(
                "process.masking exact-k integrates time out: process.steps must be 0, "
                f"found {self.steps}; bernoulli has discrete steps"
            )
        if exact_k and self.conditioned:
            raise UserError(
                "process.masking exact-k needs a denoiser that does not see the time: "
                "process.conditioned must be false, or take bernoulli"
            )
        if self.remask and not self.steps:
            raise UserError(
                "process.remask needs discrete steps: process.steps must be at least 1, found 0"
            )
        if exact_k and self.eps:
            raise UserError(
                f"process.eps is bernoulli masking's: it must be 0 with exact-k, found {self.eps}"
            )
        if not exact_k:
            check_end(self.schedule, process.schedule)
        self.complement = process.complement
        if self.complement:
            check_complement(config)
        check_times(process, self.times)
        whole = self.steps > 0 or self.eps == 0  # else times below eps are never scored
        self.bound = whole and process.weight == "bound"
        time = f"{self.steps} steps" if self.steps else "continuous time"
        time += "" if whole else f" from {self.eps:g} on"
        self.estimator = f"NELBO, {process.masking}" + ("" if exact_k else f", {time}")

    @classmethod
    def for_scoring(cls, config: Config) -> Config:
        config = of_bound(config)
        process = config.process
        timed = process.conditioned or process.steps > 0
        masking = "bernoulli" if timed else "exact-k"
        return replace(config, process=replace(process, masking=masking, eps=0.0))

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise:
        texts = -(-rows // 2) if self.complement else rows
        t = self.times(torch.rand(texts, generator=generator))
        made = Noise(t, torch.rand(texts, length, generator=generator))
        return paired(made)[:rows] if self.complement else made

    def corrupt(self, batch: Batch, noise: Noise) -> tuple[Noised, Tensor]:
        """z_t with its weight, and the time of each row: (B,)."""
        x, free = batch.x, batch.free
        if self.steps:
            t = torch.ceil(noise.t * self.steps).clamp(1, self.steps) / self.steps
            noise = Noise(t, noise.u)
            return discrete(x, free, noise, self.mask, self.schedule, self.steps, self.remask), t
        t = self.eps + (1 - self.eps) * noise.t
        made = self.masking(x, free, Noise(t, noise.u), self.mask, self.schedule)
        return (made if noise.turned is None else turned(made, batch, noise.turned, self.mask)), t

    def view(self, batch: Batch, noise: Noise | None) -> View:
        assert noise is not None
        noised, t = self.corrupt(batch, noise)
        sigma = noise_level(self.schedule.alpha(t)) if self.conditioned else None
        context = Context(Layout(self.causal, segments(batch)), sigma)
        weight = self.weigh(batch, noised)
        return View(noised.z, batch.x, noised.masked & batch.scored, weight, t, context)

    def weigh(self, batch: Batch, noised: Noised) -> Tensor:
        """What `process.weight` makes of each row's weight in the bound: (B,)."""
        return self.weight(noised.weight)


def segments(batch: Batch) -> Tensor | None:
    """Return which positions see each other: (B, L), padding apart; None where all do."""
    if batch.segment is not None or bool(batch.valid.all()):
        return batch.segment
    return torch.where(batch.valid, 0, -1)


def check_times(process: ProcessConfig, times: Times) -> None:
    """Raise UserError where the loss would be called a bound and is none."""
    if process.weight == "bound" and not times.even:
        raise UserError(
            f"process.times {process.times} are not uniform, so the loss with process.weight "
            "bound is no bound: take flat or clamp:MOST"
        )


def check_complement(config: Config) -> None:
    """Raise UserError where a row and its complement cannot be trained on."""
    process = config.process
    if process.weight == "bound" or process.steps or process.conditioned:
        raise UserError(
            "process.complement is a way to train in continuous time without the noise level: "
            "process.weight must be flat or clamp:MOST, process.steps 0, process.conditioned false"
        )
    if config.anchor.stale:
        raise UserError(
            "process.complement hides less where a row is noisier: anchor.stale must be 0, "
            f"found {config.anchor.stale:g}"
        )
    if config.train.batch % 2:
        raise UserError(
            f"process.complement has pairs of rows: train.batch must be even, "
            f"found {config.train.batch}"
        )


def paired(noise: Noise) -> Noise:
    """Each row's noise twice, the second time for the complement of its mask."""
    t, u = noise.t.repeat_interleave(2), noise.u.repeat_interleave(2, dim=0)
    return Noise(t, u, turned=torch.arange(len(t)) % 2 == 1)


def of_bound(config: Config) -> Config:
    """The configuration whose loss is the bound itself, whatever is minimised in training."""
    times = config.process.times if make_times(config.process.times).even else "stratified"
    process = replace(
        config.process, times=times, weight="bound", clip=(0.0, 1.0), complement=False
    )
    return replace(config, process=process)
