"""The one dial: a size's name gives width, depth, heads, learning rates and batch.

Also what a model costs: parameters, FLOPs a token, memory of a training step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from adlm import registry
from adlm.config import AnchorConfig, Config
from adlm.errors import UserError, nearest
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.process.anchors import reads_table


@dataclass(frozen=True)
class Size:
    """What one position of the dial means."""

    width: int
    blocks: int
    heads: int
    lr: float  # AdamW's, where AdamW trains everything
    muon_lr: float
    batch: int  # rows in a step


SIZES = {
    "pico": Size(64, 4, 4, 5e-3, 0.01, 32),
    "nano": Size(128, 3, 4, 3e-3, 0.01, 32),
    "micro": Size(192, 6, 6, 2e-3, 0.01, 64),
    "tiny": Size(256, 8, 8, 1e-3, 0.01, 128),
    "small": Size(768, 12, 12, 3e-4, 0.01, 512),
    "medium": Size(1024, 24, 16, 2e-4, 0.01, 512),
}


def resize(config: Config, name: str) -> Config:
    """The configuration at another size of the dial.

    Example:
        >>> resize(Config(), "tiny").model.width
        256
        >>> from adlm.recipes import recipe
        >>> big = recipe("owt-adlm", "medium").model
        >>> big.anchor_blocks, big.blocks
        (24, 12)
    """
    if name not in SIZES:
        raise UserError(f"there is no size '{name}'{nearest(name, SIZES)}")
    size, old = SIZES[name], config.model
    # an anchored model keeps its proportions: both depths grow as the plain depth does
    plain = {s.width: s.blocks for s in SIZES.values()}
    before = (
        plain.get(old.width, old.blocks + old.anchor_blocks) if old.anchor_blocks else old.blocks
    )
    model = replace(
        old,
        width=size.width,
        heads=size.heads,
        blocks=max(1, round(old.blocks * size.blocks / before)),
        anchor_blocks=round(old.anchor_blocks * size.blocks / before),
    )
    optim = config.optim
    if optim.name == "adamw":
        optim = replace(optim, lr=size.lr)
    else:  # beside Muon, AdamW has the vectors and embeddings only
        optim = replace(optim, muon_lr=size.muon_lr)
    return replace(config, model=model, optim=optim, train=replace(config.train, batch=size.batch))


def build(config: Config, vocab_size: int, table: bool | None = None) -> Denoiser:
    """The network of a configuration, freshly initialised.

    `table`: does it keep the corpus's counts? As the anchor rule needs them by default.
    """
    causal = registry.lookup("objective", config.objective).causal
    length = config.data.length
    if config.model.anchor_blocks:
        kept = reads_table(config.anchor.rule) if table is None else table
        return Anchored(vocab_size, config.model, causal, length, kept)
    return Denoiser(vocab_size, config.model, causal, length, config.model.tied)


def parameters(config: Config, vocab_size: int) -> int:
    """Number of weights, counted on a network that takes no memory.

    Example:
        >>> from adlm.config import ModelConfig
        >>> dit = ModelConfig(width=768, blocks=12, heads=12, time=128)
        >>> parameters(Config(model=dit), 50258)  # MDLM small, as published
        169627218
    """
    with torch.device("meta"):
        model = build(config, vocab_size)
    return sum(p.numel() for p in model.parameters())


def flops_per_token(
    config: Config, vocab_size: int, head_share: float = 1.0, last_share: float = 1.0
) -> float:
    """FLOPs of a forward pass for one token; training takes three times as many.

    Counts matrix products and attention; `head_share` is the share of positions at which the
    vocabulary head is needed (about one half for masked diffusion), `last_share` of those that go
    through the last block's second half (in training, as many). An anchored model's folded bridge
    is one D x D map; softmax and embedding go through the vocabulary at every position.
    """
    m = config.model
    per_block = (4 + 2 * m.mlp) * m.width**2 + 2 * m.width * config.data.length
    total = (m.blocks + m.anchor_blocks) * per_block + head_share * m.width * vocab_size
    total -= (1 - last_share) * (1 + 2 * m.mlp) * m.width**2
    if m.anchor_blocks:
        through = m.bridge in ("softmax", "embedding")
        total += 2 * m.width * vocab_size if through else m.width**2
    return 2.0 * total


def training_flops(config: Config, vocab_size: int) -> float:
    """FLOPs of training for one token: three forward passes, and what only training does.

    For an anchored model that is the anchor head at its supervised positions (counted as if every
    token were an anchor) while gamma is above 0, and the folding of the linear bridge.
    """
    share = head_share(config)
    total = 3 * flops_per_token(config, vocab_size, share, share)
    if config.model.anchor_blocks:
        width, anchor = config.model.width, config.anchor
        if anchor.gamma and anchor.rule != "none":
            supervised = 1.0 if anchor.positions == "all" else share
            total += 6.0 * anchor.until * supervised / anchor.every * width * vocab_size
        if config.model.bridge == "linear":
            a_step = config.train.batch * config.data.length
            total += 6.0 * width * width * vocab_size / a_step
    return total


def match(config: Config, vocab_size: int, by: str = "params") -> Config:
    """The plain model (MDLM for ADLM, AR for A2R) of equal parameters or equal FLOPs a token.

    It has as many blocks as both networks together; the width is fitted, in steps that every head
    shares evenly.

    Example:
        >>> from adlm.recipes import recipe
        >>> plain = match(recipe("owt-adlm"), 50258, by="params")
        >>> plain.objective, plain.model.blocks, plain.model.width
        ('mdlm', 18, 936)
        >>> match(recipe("owt-adlm"), 50258, by="flops").model.width
        768
    """
    plain = {"adlm": "mdlm", "a2r": "ar"}.get(config.objective)
    if plain is None:
        raise UserError(f"only an anchored model can be matched, found '{config.objective}'")
    if by not in ("params", "flops"):
        raise UserError(f"models are matched by params or flops, found '{by}'")

    def cost(c: Config) -> float:
        share = head_share(c)
        return (
            parameters(c, vocab_size) if by == "params" else flops_per_token(c, vocab_size, share)
        )

    m, step = config.model, 2 * config.model.heads
    depth = m.blocks + m.anchor_blocks
    bare = replace(m, anchor_blocks=0, bridge="linear", residual=False, shared=False)
    candidates = [
        replace(
            config,
            objective=plain,
            model=replace(bare, blocks=depth, width=width),
            anchor=AnchorConfig(),
            optim=replace(config.optim, bridge_lr=0.0),
        )
        for width in range(step, 3 * m.width, step)
    ]
    wanted = cost(config)
    return min(candidates, key=lambda c: abs(cost(c) - wanted))


def head_share(config: Config) -> float:
    """Share of positions whose logits the objective needs."""
    causal = registry.lookup("objective", config.objective).causal
    return 1.0 if causal else 0.5


def step_memory(config: Config, vocab_size: int, world: int = 1) -> int:
    """Bytes of a training step on one process: weights, moments, gradients, activations."""
    m, length = config.model, config.data.length
    moments = 2 if config.optim.name == "adamw" else 1
    copies = 2 + moments + (1 if config.optim.ema else 0)
    rows = -(-config.train.batch // world)
    rows = min(rows, config.train.micro or rows)
    kept = (
        (16 + 2 * m.mlp) * m.width * (m.blocks + m.anchor_blocks) * 4
    )  # activations of a token, fp32
    logits = (1 << 25) * 4 * 2
    return 4 * copies * parameters(config, vocab_size) + rows * length * kept + logits


def largest_micro(config: Config, vocab_size: int, world: int, limit: int) -> int:
    """The most rows at a time whose step fits into `limit` bytes: an equal part of a process's.

    0 where not even one row fits.

    Example:
        >>> from adlm.recipes import recipe
        >>> largest_micro(recipe("owt-adlm"), 50258, world=8, limit=80 << 30)
        32
    """
    rows = -(-config.train.batch // world)
    for pieces in range(1, rows + 1):
        micro = rows // pieces
        cut = replace(config, train=replace(config.train, micro=micro))
        if rows % pieces == 0 and step_memory(cut, vocab_size, world) <= ROOM * limit:
            return micro
    return 0


ROOM = 0.9  # share of a memory that a step may take by the estimate: the rest is for what it lacks


def memory_verdict(config: Config, vocab_size: int, world: int, limit: int | None) -> str:
    """What a process's step takes, whether that fits into `limit` bytes, and what would."""

    def size(micro: int) -> float:
        cut = replace(config, train=replace(config.train, micro=micro))
        return step_memory(cut, vocab_size, world)

    wanted = size(config.train.micro)
    said = f"{wanted / 2**30:.1f} GiB, estimated"
    if limit is None:
        return said
    room = f"{limit / 2**30:.1f} GiB"
    if wanted <= ROOM * limit:
        return f"{said}: fits into {room}"
    micro = largest_micro(config, vocab_size, world, limit)
    if not micro:
        return f"{said}: does NOT fit into {room}, nor does one row at a time"
    cut = f"--train.micro {micro} does, with {size(micro) / 2**30:.1f} GiB"
    return f"{said}: does NOT fit into {room}; {cut}"
