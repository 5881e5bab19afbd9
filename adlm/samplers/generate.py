"""From a model and a template to texts: sets up the canvas, picks the sampler, reports the cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch

from adlm import device as devices
from adlm import registry
from adlm.config import Config, check
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.process.kernel import make_kernel
from adlm.process.schedule import make_schedule
from adlm.samplers.base import Watch, find_policy, make_policy, run
from adlm.samplers.block_diffusion import BlockCanvas, EachBlock
from adlm.samplers.blocks import Blocks
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.random import RowRandom
from adlm.values import check_sizes

DEFAULTS = ("causal", "ancestral", "posterior", "analytic")  # the first that can write


@dataclass(frozen=True)
class SamplingSettings:
    """How texts are written.

    Attributes:
        n: How many.
        sampler: causal for AR and A2R; for masked diffusion ancestral (the default),
            first-hitting (that of block diffusion, inside its blocks), remdm-cap, remdm-rescale,
            remdm-conf, remdm-loop, remdm-switch, forward-backward, dfm, confidence, blocks, and
            with an anchor network anchor-first; posterior for D3PM, UDLM and GIDD, and
            self-correct for the last two; analytic and euler for SEDD; or one of yours,
            module:Class.
        steps: Denoising steps; one for each token by default.
        policy: The sampler's own options, such as --policy.eta 0.04; a wrong one lists them.
        draw: How a token is drawn.
        seed: Seed; text i is the same whatever n is.
        precision: fp32 by default; bf16 is faster and less exact.
        device: auto, cpu, mps, cuda or cuda:N.
        at_once: Texts that are written at once; never changes the result.
    """

    n: int = 1
    sampler: str | None = None
    steps: int | None = None
    policy: dict[str, bool | int | float | str] = field(default_factory=dict)
    draw: Draw = field(default_factory=Draw)
    seed: int = 0
    precision: str = "fp32"
    device: str = "auto"
    at_once: int = 64

    def __post_init__(self) -> None:
        check_sizes(self, "--", 1, n=10**7, steps=10**6, at_once=10**5)
        check(0 <= self.seed < 2**31, "--seed", self.seed, "in [0, 2^31)")
        ways = ("auto", "bf16", "fp32")
        check(self.precision in ways, "--precision", self.precision, f"one of {', '.join(ways)}")

    @property
    def sampling(self) -> SamplingSettings:
        """These fields alone, of a class that has more."""
        return SamplingSettings(**{f.name: getattr(self, f.name) for f in fields(SamplingSettings)})


@dataclass(frozen=True)
class Samples:
    """Generated rows and what they cost."""

    tokens: np.ndarray  # (n, L)
    ends: np.ndarray  # (n,) tokens up to the end of the text
    texts: list[str]
    nfe: np.ndarray  # (n,) network passes of each row
    heads: int  # positions at which a vocabulary head was computed, over all rows
    seconds: float
    sampler: str
    seed: int

    @property
    def ids(self) -> list[list[int]]:
        """The tokens of each text, up to its end: what is judged and written to files."""
        return [row[:end].tolist() for row, end in zip(self.tokens, self.ends, strict=True)]

    def cost(self) -> str:
        """One line on time and network passes."""
        count = self.tokens.size
        return (
            f"{self.sampler}: {count:,} tokens in {self.seconds:.1f} s "
            f"({count / self.seconds:,.0f} tokens/s), {self.nfe.mean():.1f} network passes a text"
        )


def samplers_for(config: Config) -> list[str]:
    """The samplers that a checkpoint can serve."""
    if registry.lookup("objective", config.objective).causal:
        return ["causal"]
    return [n for n in registry.names("sampler") if serves(n, config)]


def in_blocks(config: Config) -> bool:
    """Is it a checkpoint of block diffusion, which writes its own blocks?"""
    return registry.lookup("objective", config.objective).in_blocks


def serves(sampler: str, config: Config) -> bool:
    """Can a diffusion sampler write with this checkpoint?"""
    return find_policy(sampler).serves(config)


def usual(config: Config) -> str:
    """The sampler that is taken where none is named: the first of DEFAULTS that can write."""
    if in_blocks(config):
        return "first-hitting"
    known = samplers_for(config)
    return next(name for name in DEFAULTS if name in known)


def generate(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    template: np.ndarray,
    settings: SamplingSettings = SamplingSettings(),
    device: str = "cpu",
    watch: Watch | None = None,
    seeds: Sequence[tuple[int, int]] = (),
) -> Samples:
    """Write the masks of a template: (L,) token ids. Row i is the same whatever n is.

    With `seeds` the template is (n, L), and each of its rows has a (seed, row number) of its own.
    """
    known = samplers_for(config)
    sampler = settings.sampler or usual(config)
    own = "causal" not in known and registry.outside("sampler", sampler)
    if sampler not in known and not (own and serves(sampler, config)):
        raise UserError(
            f"a checkpoint of {config.objective} cannot be sampled by '{sampler}'; "
            f"it has {', '.join(known)}"
        )
    length, most = template.shape[-1], config.data.length
    moving = sampler == "blocks" or (in_blocks(config) and config.model.positions == "rotary")
    if length > most and not moving:
        longer = "" if sampler == "causal" else " (the sampler blocks writes longer texts)"
        raise UserError(f"the text is to have {length} tokens, and only {most} fit{longer}")
    policy = None
    kind = registry.lookup("objective", config.objective)
    schedule = make_schedule(config.process.schedule)
    kernel = make_kernel(config.process.kernel, schedule, vocab.mask, vocab.size)
    if sampler != "causal":
        policy = make_policy(sampler, schedule, settings.policy)
        if in_blocks(config):
            policy = EachBlock(schedule, policy)
        if isinstance(policy, Blocks):
            policy = replace(policy, context=min(policy.context or most, most))
            if not serves(policy.inner, config):
                raise UserError(f"a checkpoint of {config.objective} has no '{policy.inner}'")
    elif settings.policy:
        raise UserError("the sampler causal has no options")
    began = time.monotonic()
    tokens, nfe, heads = [], [], 0
    for low in range(0, settings.n, settings.at_once):
        rows = range(low, min(settings.n, low + settings.at_once))
        given = template[rows.start : rows.stop] if seeds else template
        z = torch.from_numpy(given).expand(len(rows), -1).clone()
        z = z.to(devices.wide(device))
        own_seeds = [seeds[row] for row in rows] if seeds else [(settings.seed, r) for r in rows]
        random = RowRandom.of(own_seeds)
        fixed = z != vocab.mask
        how = (settings.draw, random, settings.precision, device, config.process.conditioned)
        easel = BlockCanvas if in_blocks(config) else Canvas
        canvas = easel(z, fixed, vocab.mask, model.eval(), *how, kernel, kind.reads)
        with devices.autocast(settings.precision, device):  # weights are rounded once
            if policy is None:
                run_causal(canvas, vocab.bos, watch)
            else:
                run(canvas, policy, settings.steps or length, watch)
        tokens.append(canvas.z.cpu().numpy())
        nfe.append(canvas.nfe.numpy())
        heads += canvas.heads
    made = np.concatenate(tokens)
    seconds = time.monotonic() - began
    ends = np.full(len(made), length)
    if config.data.packing == "document":  # nothing after the end of a document was ever trained
        ended = made == vocab.eos
        ends = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, length)
    texts = [vocab.decode(row[:end]) for row, end in zip(made, ends, strict=True)]
    passes = np.concatenate(nfe)
    return Samples(made, ends, texts, passes, heads, seconds, sampler, settings.seed)
