"""What a model costs: parameters, FLOPs a token, memory of a training step."""

from __future__ import annotations

from dataclasses import replace

import torch

from adlm import registry
from adlm.config import Config
from adlm.models.build import build_model
from adlm.models.footprint import footprint
from adlm.nn.effort import Effort, mean_loops


def parameters(config: Config, vocab_size: int) -> int:
    """Number of weights, counted on a network that takes no memory.

    Example:
        >>> from adlm.config import ModelConfig
        >>> dit = ModelConfig(width=768, blocks=12, heads=12, time=128)
        >>> parameters(Config(model=dit), 50258)  # MDLM small, as published
        169627218
    """
    with torch.device("meta"):
        model = build_model(config, vocab_size)
    return sum(p.numel() for p in model.parameters())


def flops_per_token(
    config: Config,
    vocab_size: int,
    head_share: float = 1.0,
    last_share: float = 1.0,
    shown: int | None = None,
    loops: float | None = None,
    passes: int | None = None,
) -> float:
    """Return FLOPs of a forward pass for one token; training takes three times as many.

    Counts matrix products and attention; `head_share` is the share of positions at which the
    vocabulary head is needed (about one half for masked diffusion), `last_share` of those that go
    through the last block's second half (in training, as many). An anchored model's folded bridge
    is one D x D map; softmax and embedding go through the vocabulary at every position. Block
    diffusion is `shown` a row twice when it is scored: 2 L positions, each attends to 2 L. Middle
    blocks run `loops` times and everything but the head `passes` times: as in scoring by default.
    """
    m, shown = config.model, shown or positions(config)
    usual = Effort.scored(m)
    again = (usual.loops if loops is None else loops) - 1
    before = (usual.passes if passes is None else passes) - 1  # whole passes before the last
    per_block = (4 + 2 * m.mlp) * m.width**2 + 2 * m.width * shown * config.data.length
    blocks = m.blocks + m.anchor_blocks + again * max(0, m.blocks - 2)
    total = shown * blocks * per_block + head_share * m.width * vocab_size
    total -= (shown - last_share) * (1 + 2 * m.mlp) * m.width**2
    total += before * shown * (blocks * per_block + m.width**2)
    if m.anchor_blocks:
        through = m.bridge in ("softmax", "embedding")
        total += shown * (2 * m.width * vocab_size if through else m.width**2)
    return 2.0 * total


def positions(config: Config) -> int:
    """Return how many positions a network is shown for each token that is scored."""
    return 2 if registry.lookup("objective", config.objective).in_blocks else 1


def training_flops(config: Config, vocab_size: int) -> float:
    """Return FLOPs of training for one token: three forward passes, and what only training does.

    For an anchored model that is the anchor head at its supervised positions (counted as if every
    token were an anchor) while gamma is above 0, and the folding of the linear bridge. With recall
    a share of the steps has a first pass, which is not gone back through.
    """
    share, loops, recall = head_share(config), mean_loops(config.model), config.model.recall
    passes = registry.lookup("objective", config.objective).passes(config)
    total = 3 * passes * flops_per_token(config, vocab_size, share, share, loops=loops, passes=1)
    if recall:
        first = flops_per_token(config, vocab_size, 0.0, loops=loops, passes=1)
        total += recall * (first + 6.0 * config.model.width**2)
    if config.model.anchor_blocks:
        width, anchor = config.model.width, config.anchor
        if anchor.gamma and anchor.rule != "none":
            supervised = 1.0 if anchor.positions == "all" else share
            total += 6.0 * anchor.until * supervised / anchor.every * width * vocab_size
        if config.model.bridge == "linear":
            a_step = config.train.batch * config.data.length
            total += 6.0 * width * width * vocab_size / a_step
    return total


def head_share(config: Config) -> float:
    """Share of positions whose logits the objective needs."""
    return registry.lookup("objective", config.objective).head_share(config)


def rough_memory(config: Config, vocab_size: int) -> int:
    """Return about the bytes of a training step, at once."""
    m, train = config.model, config.train
    rows = min(train.batch, train.micro or train.batch)
    kept = (16 + 2 * m.mlp) * m.width * (m.blocks + m.anchor_blocks) * 4  # of a position, fp32
    each = 4 * 5 * least_weights(config, vocab_size)  # weights, gradients, moments, average
    return each + round(rows * config.data.length * kept * positions(config))


def step_memory(
    config: Config, vocab_size: int, world: int = 1, shard: str = "none", precision: str = "fp32"
) -> int:
    """Bytes of a training step on one process, the most that are there at a time."""
    return footprint(config, vocab_size, world, shard, precision).at_once


def writing_memory(config: Config, rows: int, length: int, at_once: int) -> float:
    """Bytes of writing rows: their tokens and text, and a pass over those written at once."""
    m, together = config.model, min(rows, at_once)
    cached = 2 * m.width * (m.blocks + m.anchor_blocks)  # numbers of a position
    passed = (16 + 2 * m.mlp) * m.width + cached + 64
    return 32.0 * rows * length + 4.0 * together * min(length, config.data.length) * passed


def least_weights(config: Config, vocab_size: int) -> int:
    """Return a number of weights that a network surely has, without making one."""
    m = config.model
    return (m.blocks + m.anchor_blocks) * (4 + 2 * m.mlp) * m.width**2 + m.width * vocab_size


def largest_micro(
    config: Config,
    vocab_size: int,
    world: int,
    limit: int,
    shard: str = "none",
    precision: str = "fp32",
) -> int:
    """The most rows at a time whose step fits into `limit` bytes: an equal part of a process's.

    0 where not even one row fits.

    Example:
        >>> from adlm.recipes import recipe
        >>> largest_micro(recipe("laptop-mdlm"), 1024, world=1, limit=1 << 25)
        8
    """
    rows = -(-config.train.batch // world)
    for micro in (rows // pieces for pieces in range(1, rows + 1) if rows % pieces == 0):
        cut = replace(config, train=replace(config.train, micro=micro))
        if step_memory(cut, vocab_size, world, shard, precision) <= ROOM * limit:
            return micro
    return 0


ROOM = 0.9  # share of a memory that a step may take by the estimate: the rest is for what it lacks


def memory_verdict(
    config: Config,
    vocab_size: int,
    world: int,
    limit: int | None,
    shard: str = "none",
    precision: str = "fp32",
) -> str:
    """Return what a process's step takes, whether that fits into `limit` bytes, and what would."""

    def size(micro: int) -> float:
        cut = replace(config, train=replace(config.train, micro=micro))
        return step_memory(cut, vocab_size, world, shard, precision)

    wanted = size(config.train.micro)
    said = f"{wanted / 2**30:.1f} GiB, estimated"
    if limit is None:
        return said
    room = f"{limit / 2**30:.1f} GiB"
    if wanted <= ROOM * limit:
        return f"{said}: fits into {room}"
    micro = largest_micro(config, vocab_size, world, limit, shard, precision)
    if not micro:
        return f"{said}: does NOT fit into {room}, nor does one row at a time"
    cut = f"--train.micro {micro} does, with {size(micro) / 2**30:.1f} GiB"
    return f"{said}: does NOT fit into {room}; {cut}"
