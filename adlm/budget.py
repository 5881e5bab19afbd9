"""What a training costs: tokens, FLOPs, memory and time, on this machine or on a named GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from adlm import device as devices
from adlm import registry
from adlm.config import Config
from adlm.data.vocab import Vocab, nominal_size
from adlm.device import free_memory
from adlm.errors import UserError, nearest
from adlm.measure import TrainingSpeed, step_rate
from adlm.models.cost import (
    flops_per_token,
    head_share,
    largest_micro,
    memory_verdict,
    parameters,
    training_flops,
)
from adlm.models.footprint import footprint
from adlm.progress import duration


class Gpu(NamedTuple):
    """What a maker's data sheet says."""

    flops: float  # dense bf16 (fp16 on T4 and V100) matrix products a second
    memory: int  # GiB


GPUS = {
    "t4": Gpu(65e12, 16),
    "v100": Gpu(125e12, 32),
    "l4": Gpu(121e12, 24),
    "rtx4090": Gpu(165e12, 24),
    "a100": Gpu(312e12, 80),
    "h100": Gpu(989e12, 80),
    "gh200": Gpu(989e12, 96),
}
UTILISATION = 0.4  # share of the peak that such training usually reaches; stated in the output
LONG = 2 * 86400.0  # seconds; what takes longer here is told for LARGE
LARGE = (8, "h100")
SHORT = 60.0  # seconds; what takes less there is told for this machine


def find_gpu(name: str) -> Gpu:
    """Return a GPU by its name, or raise UserError."""
    if name not in GPUS:
        raise UserError(f"no GPU '{name}' is known{nearest(name, GPUS)}")
    return GPUS[name]


def training_tokens(config: Config) -> int:
    """Count the tokens that a training reads."""
    return config.train.steps * config.train.batch * config.data.length


@dataclass(frozen=True)
class Cluster:
    """Where a plan is for: some GPUs of one kind, or this machine."""

    gpu: str | None = None
    count: int = 1
    shard: str = "none"
    utilisation: float = UTILISATION
    price: float | None = None  # of a GPU for an hour


def plan(config: Config, vocab: Vocab, on: Cluster = Cluster()) -> Iterator[tuple[str, str]]:
    """Yield a label and what is needed, on some GPUs or on this machine, measured now."""
    card = find_gpu(on.gpu) if on.gpu else None
    size, tokens = vocab.size, training_tokens(config)
    forward = flops_per_token(config, size, head_share(config))
    step = training_flops(config, size)
    limit = card.memory << 30 if card else free_memory(config.train.device)
    yield "parameters", f"{parameters(config, size):,}"
    steps = f"{config.train.steps:,} steps"
    yield "training tokens", f"{tokens:,} in {steps}{predicted(config, tokens)}"
    yield "FLOPs a token", f"{forward:.3g} forward, {step:.3g} in training"
    yield "FLOPs in all", f"{step * tokens:.3g}"
    device = "cuda" if card else devices.pick(config.train.device)
    chosen = config.train.precision
    precision = "bf16" if card and chosen == "auto" else devices.precision(chosen, device)
    world = on.count if card else 1
    verdict = memory_verdict(config, size, world, limit, on.shard, precision)
    yield "memory a process", verdict
    yield from parts(config, size, world, on.shard, precision, limit)
    if card:
        rate = card.flops * on.utilisation * on.count / step
        where = f"{on.count} x {on.gpu} at {on.utilisation:.0%} of the peak, assumed"
    else:
        rate = step_rate(config, vocab, device, precision)
        where = f"this machine ({device}, {precision}), from a real step measured now"
    yield "speed", f"{rate:,.0f} tokens/s: {where}"
    yield "time", f"{duration(tokens / rate)}, without evaluation"
    if card:
        hours = on.count * tokens / rate / 3600
        cost = "" if on.price is None else f": {hours * on.price:,.0f} at {on.price:g} an hour"
        yield "GPU hours", f"{hours:,.0f}{cost}"


def parts(
    config: Config, size: int, world: int, shard: str, precision: str, limit: int | None
) -> Iterator[tuple[str, str]]:
    """Yield the parts of a step's memory, with as many rows at a time as fit."""
    share = -(-config.train.batch // world)
    micro = min(share, config.train.micro or share)
    if limit is not None:
        fits = largest_micro(config, size, world, limit, shard, precision)
        micro = min(micro, fits or 1)
    cut = replace(config, train=replace(config.train, micro=micro))
    found = vars(footprint(cut, size, world, shard, precision))
    sharded = f", sharded: {shard}" if world > 1 else ""
    yield "  of it", f"at {micro} row(s) at a time{sharded}, {precision} products"
    for name, count in found.items():
        if count and name != "at_once":
            label, note = NAMES.get(name, (name, ""))
            yield f"  {label}", f"{count / 2**30:.2f} GiB{note}"
    yield "  at once", f"at most {found['at_once'] / 2**30:.2f} GiB"


NAMES = {
    "average": ("EMA", ""),
    "activations": ("activations", ": by a pass over fake tensors"),
    "logits": ("logits", ": a chunk of them, and gradients that are made with it"),
    "buckets": ("exchange", ": what processes send each other"),
    "update": ("update", ": while the optimiser steps"),
}


def outline(config: Config, here: TrainingSpeed) -> tuple[str, str, str, str]:
    """Return parameters, tokens, FLOPs and time; `here` is how fast this machine trains."""
    size = nominal_size(config.data.tokenizer)
    assert size is not None, "a recipe names a known tokenizer"
    tokens = training_tokens(config)
    flops = tokens * training_flops(config, size)
    own = tokens * here.seconds(config, size)
    takes = f"{duration(own)} here"
    count, gpu = LARGE
    seconds = flops / (count * UTILISATION * GPUS[gpu].flops)
    if own > LONG and seconds > SHORT:  # a busy machine measures slow: small ones stay
        takes = f"{duration(seconds)} on {count} x {gpu}"
    return amount(parameters(config, size)), amount(tokens), f"{flops:.1g}", takes


def predicted(config: Config, tokens: float) -> str:
    """Say how many tokens are predicted where that is not all: those the papers' tables count.

    Example:
        >>> predicted(Config(objective="mdlm"), 524e9)
        '; half of them, 262 B, are masked and predicted: what the papers count'
        >>> predicted(Config(objective="ar"), 262e9)
        ''
    """
    kind, share = registry.lookup("objective", config.objective), head_share(config)
    if kind.reads:  # a pass of its own reads the whole text, and hides nothing
        share = share * kind.passes(config) - 1
    part = "half" if share == 0.5 else f"{share:.3g}"
    count = f"{part} of them, {amount(share * tokens)}, are masked and predicted"
    return "" if share == 1 else f"; {count}: what the papers count"


def amount(count: float) -> str:
    """Write a large number in three digits.

    Example:
        >>> amount(2_662_400), amount(262.144e9), amount(900)
        ('2.66 M', '262 B', '900')
    """
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,.0f}"
