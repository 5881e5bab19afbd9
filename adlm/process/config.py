"""The settings of the forward process, and of which tokens are anchors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from adlm.values import check, check_sizes


@dataclass(frozen=True)
class ProcessConfig:
    """The forward process of a diffusion objective.

    Attributes:
        schedule: Noise schedule alpha_t: log-linear, cosine, polynomial, polynomial:POWER,
            geometric (SEDD's with uniform noise), or one of yours, module:Class.
        kernel: What noise is: mask, uniform (any real token: UDLM, SEDD) or mixture:SHARE (GIDD,
            with that share of real tokens at t = 1/2, in [0, 1)).
        masking: exact-k (same bound, less variance) or bernoulli (the published code's).
        times: How the times of a batch are drawn: stratified, antithetic, uniform, or
            bell:CENTRE:WIDTH (more often in the middle; not with the bound's weight).
        weight: What a row counts in training: bound (the bound is minimised), flat (every hidden
            token alike), clamp:MOST, or GIDD's dynamic. Reported figures are the bound in any case.
        steps: Discrete time steps T (D3PM has them); 0 = continuous time.
        eps: Smallest time that bernoulli masking draws (UDLM, SEDD and GIDD: also how far times
            stay from 1); the training's own figure is then no bound.
        conditioned: Let the denoiser see the noise level (needs model.time).
        remask: Remasking probability sigma_t in the bound with discrete steps.
        block: Tokens in a block of block diffusion (bd3lm); it must divide data.length.
        clip: The interval from which block diffusion's training draws its times.
        curriculum: UDLM's (Duo): share of the training in which noise is Gaussian and softened.
    """

    schedule: str = "log-linear"
    kernel: str = "mask"
    masking: str = "exact-k"
    times: str = "stratified"
    weight: str = "bound"
    steps: int = 0
    eps: float = 0.0
    conditioned: bool = False
    remask: float = 0.0
    block: int = 4
    clip: tuple[float, float] = (0.0, 1.0)
    curriculum: float = 0.0

    def __post_init__(self) -> None:
        check(0 <= self.curriculum <= 1, "process.curriculum", self.curriculum, "in [0, 1]")
        check(0 <= self.remask <= 1, "process.remask", self.remask, "in [0, 1]")
        check_sizes(self, "process.", 0, steps=10**9)
        check(0 <= self.eps < 1, "process.eps", self.eps, "in [0, 1)")
        check_sizes(self, "process.", 1, block=2**24)
        rising = len(self.clip) == 2 and 0 <= self.clip[0] <= self.clip[1] <= 1 and self.clip[1] > 0
        check(rising, "process.clip", self.clip, "two numbers in [0, 1], the larger one last")


@dataclass(frozen=True)
class AnchorConfig:
    """Which tokens are anchors, and how much their prediction counts.

    Attributes:
        rule: count, frequency, corpus, tfidf, all, none, or a function of yours, module:function.
        tau: count takes tokens that occur at most so often in their row.
        share: frequency takes tokens up to this share of their row; corpus and tfidf mark about
            this share of all tokens.
        gamma: Weight of the anchor loss.
        warmup: Share of the training over which gamma rises from 0.
        fade: Let gamma fall back to 0, linearly, from the end of the warm-up to `until`.
        until: Share of the training after which gamma is 0; a step then costs no anchor loss.
        positions: Anchor loss at all anchors (the published code) or only masked ones (the theory).
        every: Of those, only one position in so many, others each time; the loss is scaled up.
        stale: Train for `--anchor_every`: the anchor network reads the row at a noisier time, up to
            so much later, and a small gated update tells the denoiser what was written since; 0 =
            off. About K / steps of the sampler suits an anchor network that runs every K steps.
        compat: As the published code: BOS and EOS may be anchors, and the anchor head may predict
            the mask.
    """

    rule: str = "count"
    tau: int = 5
    share: float = 0.3
    gamma: float = 3e-3
    warmup: float = 0.003
    fade: bool = False
    until: float = 1.0
    positions: Literal["all", "masked"] = "masked"
    every: int = 1
    stale: float = 0.0
    compat: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "anchor.", 1, tau=10**9, every=10**9)
        check(0 <= self.stale <= 1, "anchor.stale", self.stale, "in [0, 1]")
        check(0 < self.share <= 1, "anchor.share", self.share, "in (0, 1]")
        check(
            0 <= self.gamma < math.inf, "anchor.gamma", self.gamma, "a finite number of 0 or more"
        )
        check(0 <= self.warmup <= 1, "anchor.warmup", self.warmup, "in [0, 1]")
        check(0 < self.until <= 1, "anchor.until", self.until, "in (0, 1]")
