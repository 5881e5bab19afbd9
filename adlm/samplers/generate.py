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
from adlm.models.cost import writing_memory
from adlm.models.denoiser import Denoiser
from adlm.process.kernel import make_kernel
from adlm.process.schedule import make_schedule
from adlm.samplers.base import Policy, Watch, find_policy, make_policy, run
from adlm.samplers.block_diffusion import BlockCanvas, EachBlock
from adlm.samplers.blocks import Blocks, InBlocks
from adlm.samplers.cache import CacheSettings
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
        cache: What is kept between steps.
        anchor_every: Steps between two passes of the anchor network; 1 is exact, more is faster and
            loses quality unless the model was trained for it (anchor.stale).
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


@dataclass(frozen=True)
class Samples:
    """Generated rows and what they cost."""

    tokens: np.ndarray  # (n, L)
    ends: np.ndarray  # (n,) tokens up to the end of the text
    texts: list[str]
    nfe: np.ndarray  # (n,) network passes of each row
    positions: np.ndarray  # (n,) positions of all passes of each row
    anchor_positions: np.ndarray  # (n,) and of those of an anchor trunk
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
            f"({count / self.seconds:,.0f} tokens/s), {self.nfe.mean():.1f} network passes a text "
            f"over {self.positions.mean():,.0f} positions"
        )


def samplers_for(config: Config) -> list[str]:
    """Return the samplers that a checkpoint can serve."""
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
    """Return the sampler where none is named: the first of DEFAULTS that can write."""
    if in_blocks(config):
        return "first-hitting"
    known = samplers_for(config)
    return next(name for name in DEFAULTS if name in known)


def generate(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    templates: np.ndarray | Sequence[np.ndarray],
    settings: SamplingSettings = SamplingSettings(),
    device: str = "cpu",
    watch: Watch | None = None,
) -> Samples:
    """Write the masks of a template, (L,) token ids, or of several: n texts of each in turn.

    Text i of a template is the same whatever n is, and whatever templates are beside it.
    """
    many = [templates] if isinstance(templates, np.ndarray) else list(templates)
    sampler = chosen(config, settings, max(len(one) for one in many))
    policy = None if sampler == "causal" else find_way(sampler, config, settings)
    began, n = time.monotonic(), settings.n
    longest = max(len(one) for one in many)
    needed = writing_memory(config, len(many) * n, longest, settings.at_once)
    less = "fewer texts (--n, --at_once) or shorter ones (--length)"
    devices.check_memory(needed, "writing these texts", less, device)
    made = np.full((len(many) * n, longest), vocab.pad)
    nfe, heads = np.zeros(len(made), dtype=np.int64), 0
    positions, anchored = np.zeros_like(nfe), np.zeros_like(nfe)
    for group in groups(many, policy, vocab.mask):
        rows = [(place, row) for place in group for row in range(n)]
        for low in range(0, len(rows), settings.at_once):
            part = rows[low : low + settings.at_once]
            given = [many[place] for place, _ in part]
            random = RowRandom(settings.seed, [row for _, row in part])
            canvas = write(model, config, vocab, given, random, settings, policy, device, watch)
            at = [place * n + row for place, row in part]
            made[at, : canvas.z.shape[1]] = canvas.z.cpu().numpy()
            nfe[at] = canvas.nfe.numpy()
            positions[at] = canvas.passed.numpy()
            anchored[at] = canvas.anchors_passed.numpy()
            heads += canvas.heads
    seconds = time.monotonic() - began
    ends = np.repeat([len(one) for one in many], n)
    for row, end in enumerate(ends):
        made[row, end:] = vocab.pad
    if policy is None:
        nfe, positions = np.minimum(nfe, ends), np.minimum(positions, ends)
        anchored = np.minimum(anchored, ends)
        # what was written beyond a shorter row's end is not asked for
    if config.data.packing != "wrap":  # nothing after the end of a document was ever trained
        ended = made == vocab.eos
        first = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, longest)
        ends = np.minimum(ends, first)
    texts = [vocab.decode(row[:end]) for row, end in zip(made, ends, strict=True)]
    return Samples(
        made, ends, texts, nfe, positions, anchored, heads, seconds, sampler, settings.seed
    )


def chosen(config: Config, settings: SamplingSettings, length: int) -> str:
    """The sampler that settings name, or the usual one; UserError where it cannot write that."""
    known = samplers_for(config)
    sampler = settings.sampler or usual(config)
    own = "causal" not in known and registry.outside("sampler", sampler)
    if sampler not in known and not (own and serves(sampler, config)):
        raise UserError(
            f"a checkpoint of {config.objective} cannot be sampled by '{sampler}'; "
            f"it has {', '.join(known)}"
        )
    if sampler == "causal" and settings.policy:
        raise UserError("the sampler causal has no options")
    check_memory(settings, config)
    most = config.data.length
    moving = sampler == "blocks" or (in_blocks(config) and config.model.positions == "rotary")
    if length > most and not moving:
        longer = "" if sampler == "causal" else " (the sampler blocks writes longer texts)"
        raise UserError(f"the text is to have {length} tokens, and only {most} fit{longer}")
    return sampler


def check_memory(settings: SamplingSettings, config: Config) -> None:
    """Raise UserError where a checkpoint cannot be passed as --cache and --anchor_every say."""
    causal, kind = registry.lookup("objective", config.objective).causal, settings.cache.kind
    if kind != "none" and (causal or in_blocks(config)):
        raise UserError(
            f"--cache {kind} is for models of whole rows: "
            f"{config.objective} keeps what is finished in any case, and exactly"
        )
    if settings.anchor_every > 1 and (causal or not config.model.anchor_blocks):
        raise UserError(f"--anchor_every is for anchored diffusion, not for {config.objective}")
    if config.model.shift and (kind != "none" or settings.anchor_every > 1):
        raise UserError("a model with shifted predictions (model.shift) takes --cache none alone")


def find_way(sampler: str, config: Config, settings: SamplingSettings) -> Policy:
    """The policy of a sampler for a checkpoint."""
    most = config.data.length
    schedule = make_schedule(config.process.schedule)
    policy = make_policy(sampler, schedule, settings.policy)
    if in_blocks(config):
        policy = EachBlock(schedule, policy)
    if isinstance(policy, Blocks):
        policy = replace(policy, context=min(policy.context or most, most))
        if not serves(policy.inner, config):
            raise UserError(f"a checkpoint of {config.objective} has no '{policy.inner}'")
    elif settings.cache.in_blocks:
        policy = InBlocks(schedule, policy, settings.cache.block)
    return policy


def groups(templates: Sequence[np.ndarray], policy: Policy | None, mask: int) -> list[list[int]]:
    """Which templates are written at once, without one changing what another becomes.

    A causal model (no policy) reads from the left: what comes after a shorter row's end changes
    nothing in it, so all go together. Diffusion sees a whole row: rows of one length. Where blocks
    are written in turn, how much is drawn depends on where the prompt ends.
    """

    def kind(one: np.ndarray) -> tuple[int, bytes]:
        if policy is None:
            return 0, b""
        in_turn = isinstance(policy, EachBlock | Blocks | InBlocks)
        return len(one), (one == mask).tobytes() if in_turn else b""

    found: dict[tuple[int, bytes], list[int]] = {}
    for place, one in enumerate(templates):
        found.setdefault(kind(one), []).append(place)
    return list(found.values())


def write(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    templates: Sequence[np.ndarray],
    random: RowRandom,
    settings: SamplingSettings,
    policy: Policy | None,
    device: str,
    watch: Watch | None = None,
) -> Canvas:
    """Write a row for each template; shorter ones (of a causal model) end with masks."""
    length = max(len(one) for one in templates)
    z = torch.full((len(templates), length), vocab.mask)
    for row, one in enumerate(templates):
        z[row, : len(one)] = torch.from_numpy(one)
    z = z.to(devices.wide(device))
    schedule = make_schedule(config.process.schedule)
    kernel = make_kernel(config.process.kernel, schedule, vocab.mask, vocab.size)
    reads = registry.lookup("objective", config.objective).reads
    how = (settings.draw, random, settings.precision, device, config.process.conditioned)
    kept = (settings.cache, settings.anchor_every)
    easel = BlockCanvas if in_blocks(config) else Canvas
    canvas = easel(z, z != vocab.mask, vocab.mask, model.eval(), *how, kernel, reads, *kept)
    with devices.autocast(settings.precision, device):  # weights are rounded once
        if policy is None:
            run_causal(canvas, vocab.bos, watch)
        else:
            run(canvas, policy, settings.steps or length, watch)
    canvas.verify()
    return canvas
