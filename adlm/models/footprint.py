"""Memory of a training step by its parts, from a pass over tensors that hold nothing.

    weights, gradients, moments, average    counted; 4 bytes a number, divided where sharded
    activations     what a pass forward keeps for the one back, found by running the network on fake
                    tensors (`FakeTensorMode`) of one row and of two: it grows by the row
    logits          the vocabulary heads' chunks and the gradients that are made with the loss
    buckets         what processes exchange: DDP's copy of the gradients, or gathered weights

Gradients come as activations go, so not all of it is there at once unless gradients of an earlier
piece of the batch are: `at_once` is the most that is.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from adlm import device as devices
from adlm import registry
from adlm.config import Config, TrainConfig
from adlm.models.build import build_model
from adlm.nn.block import Block
from adlm.nn.blocks import visible
from adlm.nn.context import Context
from adlm.nn.linear_ce import CACHE_ELEMENTS, CHUNK_ELEMENTS
from adlm.nn.transformer import Trunk

SHARDS = ("none", "grad", "full")


class Live(TorchDispatchMode):
    """Bytes of the tensors that are alive, real or fake, and the most there were."""

    def __init__(self, hidden: int = 0) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: dict[int, int] = {}
        self.hidden = hidden  # True values of a mask, which fake tensors cannot tell

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        if func is torch.ops.aten.nonzero.default and self.hidden:
            out = torch.zeros(self.hidden, args[0].ndim, dtype=torch.long)
        else:
            out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.see(leaf)
        return out

    def see(self, tensor: Tensor) -> None:
        """Count a tensor's memory until it is let go; views of it are not counted again."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self.known:
            self.known[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self.let_go, storage._cdata)

    def let_go(self, key: int) -> None:
        self.now -= self.known.pop(key, 0)


@dataclass(frozen=True)
class Passes:
    """Bytes that passes over some rows take beside the weights."""

    kept: int  # after the pass forward
    most: int  # in both passes, gradients among them


@lru_cache(maxsize=64)
def passes(config: Config, vocab_size: int, rows: int, precision: str) -> Passes:
    """Run the network forward and back over fake rows."""
    length = config.data.length
    share = registry.lookup("objective", config.objective).head_share(config)
    hidden = max(1, round(share * rows * length))
    with nothing_kept(), FakeTensorMode(), Live(hidden) as live:
        model = build_model(config, vocab_size).train()
        x = torch.zeros(rows, length, dtype=torch.long)
        z, layout = model.shown(x, x)
        sigma = torch.zeros(rows) if config.process.conditioned else None
        wanted = torch.zeros(z.shape, dtype=torch.bool)
        before = live.most = live.now
        with devices.autocast(precision, "cpu"):
            h = model(z, Context(layout, sigma, wanted=wanted)).denoiser
        kept = live.now
        h.sum().backward()
        return Passes(kept - before, live.most - before)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Keep real masks of block diffusion out of a fake pass, and fake ones from real passes."""
    visible.cache_clear()
    try:
        yield
    finally:
        visible.cache_clear()


@dataclass(frozen=True)
class Footprint:
    """Bytes of a training step on one process."""

    weights: int
    gradients: int
    moments: int
    average: int
    activations: int
    logits: int
    buckets: int
    update: int  # the optimiser's own, while it steps
    at_once: int  # the most of all that is there at a time


def footprint(
    config: Config, vocab_size: int, world: int = 1, shard: str = "none", precision: str = "fp32"
) -> Footprint:
    """Return what a step takes on each of `world` processes."""
    share = -(-config.train.batch // world)
    rows = min(share, config.train.micro or share)
    plain = replace(config, train=TrainConfig())  # nothing below depends on it
    net = counted(plain, vocab_size)
    one, two = (passes(plain, vocab_size, n, precision) for n in (1, 2))
    kept = one.kept + (rows - 1) * (two.kept - one.kept)
    most = one.most + (rows - 1) * (two.most - one.most)
    apart = world if shard != "none" else 1
    gradients, moments = net.weights // apart, net.moments // apart
    average = net.weights // apart if config.optim.ema else 0
    weights = net.weights // (world if shard == "full" else 1)
    logits = head_bytes(config, vocab_size, rows, precision)
    buckets = net.exchanged(world, shard, precision)
    update = net.update(config, precision) // apart
    early = gradients if share > rows or world > 1 else 0  # those that are there from the start
    at_once = max(early + kept + logits, early + kept if early else most, gradients + update)
    at_once += weights + moments + average + buckets
    return Footprint(weights, gradients, moments, average, kept, logits, buckets, update, at_once)


@dataclass(frozen=True)
class Counted:
    """Bytes of a network's parts in fp32."""

    weights: int
    moments: int
    blocks: tuple[int, ...]  # of each transformer block
    matrices: tuple[tuple[int, int], ...]  # shapes of those that Muon trains

    def exchanged(self, world: int, shard: str, precision: str) -> int:
        """Bytes of what processes send each other: DDP's buckets, or what is gathered at a time.

        That is two blocks and what is no block's, in the precision of the products; where all is
        sharded, of weights and of their gradients.
        """
        if world == 1:
            return 0
        if shard == "none":
            return self.weights
        gathered = self.weights - sum(self.blocks) + 2 * max(self.blocks)
        gathered = gathered // 2 if precision == "bf16" else gathered
        return gathered * (2 if shard == "full" else 1)

    def update(self, config: Config, precision: str) -> int:
        """Bytes that Muon takes while it steps: all directions, and one shape's iterates."""
        if config.optim.name != "muon":
            return 0
        size = 2 if precision == "bf16" else 4
        every = sum(4 * r * c for r, c in self.matrices)
        same = Counter(self.matrices)
        iterates = [
            n * (r * c * (4 + 2 * size) + 2 * size * min(r, c) ** 2) for (r, c), n in same.items()
        ]
        return every + max(iterates, default=0)


@lru_cache(maxsize=64)
def counted(config: Config, vocab_size: int) -> Counted:
    """Count a network that takes no memory."""
    with torch.device("meta"):
        model = build_model(config, vocab_size)
    trunks = [module for module in model.modules() if isinstance(module, Trunk)]
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    linear = [m.weight for t in trunks for m in t.modules() if isinstance(m, nn.Linear)]
    muon = [(p.shape[0], p.shape[1]) for p in linear] if config.optim.name == "muon" else []
    whole = 4 * sum(p.numel() for p in model.parameters())
    return Counted(
        whole,
        2 * whole - sum(4 * r * c for r, c in muon),  # AdamW has two of each weight, Muon one
        tuple(4 * sum(p.numel() for p in block.parameters()) for block in blocks),
        tuple(muon),
    )


def head_bytes(config: Config, vocab: int, rows: int, precision: str) -> int:
    """Bytes that a vocabulary head takes when its loss is computed, see `nn/linear_ce.py`.

    A chunk of logits, the gradients of the states and of the head's matrix; in bf16 also an fp32
    copy of some logits, the head's copy and a chunk's part of that gradient.
    """
    width, narrow = config.model.width, 2 if precision == "bf16" else 4
    share = registry.lookup("objective", config.objective).head_share(config)
    states = max(1, round(share * rows * config.data.length))
    total = narrow * min(CHUNK_ELEMENTS, states * vocab) + 4 * (states + vocab) * width
    if precision == "bf16":
        total += 4 * min(CACHE_ELEMENTS, states * vocab) + 4 * vocab * width
    return total
