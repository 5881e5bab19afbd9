"""From a model and a template to texts: sets up the canvas, picks the sampler, reports the cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from adlm import device as devices
from adlm import registry
from adlm.config import Config
from adlm.data.loader import share
from adlm.data.vocab import Vocab
from adlm.models.cost import writing_memory
from adlm.models.denoiser import Denoiser
from adlm.process.order import OrderedMask, sampled_kernel
from adlm.samplers.base import Policy, Watch, run
from adlm.samplers.block_diffusion import BlockCanvas, EachBlock
from adlm.samplers.blocks import Blocks, InBlocks
from adlm.samplers.canvas import Canvas
from adlm.samplers.causal import run_causal
from adlm.samplers.choice import chosen, find_way, in_blocks, samplers_for
from adlm.samplers.goals import toward
from adlm.samplers.random import RowRandom
from adlm.samplers.settings import SamplingSettings
from adlm.world import World


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


def generate(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    templates: np.ndarray | Sequence[np.ndarray],
    settings: SamplingSettings = SamplingSettings(),
    device: str = "cpu",
    watch: Watch | None = None,
    world: World = World(),
) -> Samples:
    """Write the masks of a template, (L,) token ids, or of several: n texts of each in turn.

    Text i of a template is the same whatever n is, and whatever templates are beside it. Each of
    several processes writes its share, and all have all texts.
    """
    many = [templates] if isinstance(templates, np.ndarray) else list(templates)
    settings = toward(settings, config, samplers_for(config), not in_blocks(config))
    sampler = chosen(config, settings, max(len(one) for one in many))
    policy = None if sampler == "causal" else find_way(sampler, config, settings)
    began, n = time.monotonic(), settings.n
    longest = max(len(one) for one in many)
    needed = writing_memory(config, len(many) * n, longest, settings.at_once)
    less = "fewer texts (--n, --at_once) or shorter ones (--length)"
    devices.check_memory(needed, "writing these texts", less, device)
    made = np.zeros((len(many) * n, longest), dtype=np.int64)
    nfe, heads = np.zeros(len(made), dtype=np.int64), 0
    positions, anchored = np.zeros_like(nfe), np.zeros_like(nfe)
    for group in groups(many, policy, vocab.mask):
        rows = [(place, row) for place in group for row in range(n)]
        rows = rows[share(len(rows), world.rank, world.size)]
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
    made, nfe, positions, anchored = map(world.add, (made, nfe, positions, anchored))
    heads = int(world.sum(heads)[0])
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
        ended[:, 0] &= not config.data.compat  # BOS, which may be the same token
        first = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, longest)
        ends = np.minimum(ends, first)
    texts = [vocab.decode(row[:end]) for row, end in zip(made, ends, strict=True)]
    return Samples(
        made, ends, texts, nfe, positions, anchored, heads, seconds, sampler, settings.seed
    )


def groups(templates: Sequence[np.ndarray], policy: Policy | None, mask: int) -> list[list[int]]:
    """Which templates are written at once, without one changing what another becomes.

    A causal model (no policy) reads from the left: what comes after a shorter row's end changes
    nothing in it, so all go together; so do the rows of a ragged policy, whose padding is not seen.
    Others need rows of one length. Where blocks are written in turn, how much is drawn depends on
    where the prompt ends.
    """

    def kind(one: np.ndarray) -> tuple[int, bytes]:
        if policy is None or policy.ragged:
            return 0, b""
        in_turn = isinstance(policy, EachBlock | Blocks | InBlocks)
        return len(one), (one == mask).tobytes() if in_turn else b""

    found: dict[tuple[int, bytes], list[int]] = {}
    for place, one in sorted(enumerate(templates), key=lambda pair: len(pair[1])):
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
    """Write a row for each template; shorter ones end with padding (of a causal model: masks)."""
    lengths = [len(one) for one in templates]
    length, differ = max(lengths), policy is not None and len(set(lengths)) > 1
    z = torch.full((len(templates), length), vocab.pad if differ else vocab.mask)
    for row, one in enumerate(templates):
        z[row, : len(one)] = torch.from_numpy(one)
    z = z.to(devices.wide(device))
    kernel = sampled_kernel(config, vocab, model.counts)
    if isinstance(kernel, OrderedMask):
        kernel.exponents = kernel.exponents.to(z.device)
    reads = registry.lookup("objective", config.objective).reads
    how = (settings.draw, random, settings.precision, device, config.process.conditioned)
    kept = (settings.cache, settings.anchor_every)
    easel = BlockCanvas if in_blocks(config) else Canvas
    canvas = easel(z, z != vocab.mask, vocab.mask, model.eval(), *how, kernel, reads, *kept)
    if differ:
        canvas.lengths = lengths
        canvas.paces = torch.tensor([settings.steps or n for n in lengths], device=z.device)
    with devices.autocast(settings.precision, device):  # weights are rounded once
        if policy is None:
            run_causal(canvas, vocab.bos, watch)
        else:
            run(canvas, policy, settings.steps or length, watch)
    canvas.verify()
    return canvas
