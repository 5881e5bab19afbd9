"""How texts are written: what a user may choose."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from adlm.config import check
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.values import check_sizes


@dataclass(frozen=True)
class SamplingSettings:
    """How texts are written.

    Attributes:
        n: How many.
        goal: What the texts are for: exact (the model's reverse process), best (texts that read
            best: sampler, and a nucleus of 0.9 unless told otherwise) or fast (sampler, cache and
            anchor_every).
        sampler: causal for AR and A2R; for masked diffusion ancestral (the default),
            first-hitting (that of block diffusion, inside its blocks), remdm-cap, remdm-rescale,
            remdm-conf, remdm-loop, remdm-switch, forward-backward, dfm, confidence, blocks, and
            with an anchor network anchor-first; posterior for D3PM, UDLM and GIDD, and
            self-correct for the last two; analytic and euler for SEDD; order-ancestral and
            order-hitting where tokens have an order; or one of yours, module:Class.
        steps: Denoising steps; one for each token by default.
        policy: The sampler's own options, such as --policy.eta 0.04; a wrong one lists them.
        draw: How a token is drawn.
        cache: What is kept between steps.
        anchor_every: Steps between two passes of the anchor network; 1 is exact, more is faster and
            loses quality unless the model was trained for it (anchor.stale).
        seed: Seed; text i is the same whatever n is.
        precision: fp32 by default; bf16 is faster and less exact.
        device: auto, cpu, mps, cuda or cuda:N.
        at_once: Texts that are written at once; never changes the result.
    """

    n: int = 1
    goal: Literal["exact", "best", "fast"] = "exact"
    sampler: str | None = None
    steps: int | None = None
    policy: dict[str, bool | int | float | str] = field(default_factory=dict)
    draw: Draw = field(default_factory=Draw)
    cache: CacheSettings = field(default_factory=CacheSettings)
    anchor_every: int = 1
    seed: int = 0
    precision: str = "fp32"
    device: str = "auto"
    at_once: int = 64

    def __post_init__(self) -> None:
        check_sizes(self, "--", 1, n=10**7, steps=10**6, at_once=10**5, anchor_every=10**6)
        check(0 <= self.seed < 2**31, "--seed", self.seed, "in [0, 2^31)")
        ways = ("auto", "bf16", "fp32")
        check(self.precision in ways, "--precision", self.precision, f"one of {', '.join(ways)}")

    @property
    def sampling(self) -> SamplingSettings:
        """These fields alone, of a class that has more."""
        return SamplingSettings(**{f.name: getattr(self, f.name) for f in fields(SamplingSettings)})
