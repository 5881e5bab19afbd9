"""What a training costs: tokens, FLOPs, memory and time, on this machine or on a named GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from adlm import device as devices
from adlm.config import Config
from adlm.data.vocab import Vocab, nominal_size
from adlm.device import free_memory
from adlm.errors import UserError, nearest
from adlm.measure import step_rate
from adlm.models.cost import flops_per_token, head_share, memory_verdict, parameters, training_flops
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


def plan(
    config: Config, vocab: Vocab, gpu: str | None = None, count: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield a label and what is needed, on `count` of a GPU or on this machine, measured now."""
    card = find_gpu(gpu) if gpu else None
    size, tokens = vocab.size, training_tokens(config)
    forward = flops_per_token(config, size, head_share(config))
    step = training_flops(config, size)
    limit = card.memory << 30 if card else free_memory(config.train.device)
    yield "parameters", f"{parameters(config, size):,}"
    steps = f"{config.train.steps:,} steps"
    yield "training tokens", f"{tokens:,} in {steps}{predicted(config, tokens)}"
    yield "FLOPs a token", f"{forward:.3g} forward, {step:.3g} in training"
    yield "FLOPs in all", f"{step * tokens:.3g}"
    yield "memory a process", memory_verdict(config, size, count if card else 1, limit)
    if card:
        rate = card.flops * UTILISATION * count / step
        where = f"{count} x {gpu} at {UTILISATION:.0%} of the peak, assumed"
    else:
        device = devices.pick(config.train.device)
        precision = devices.precision(config.train.precision, device)
        rate = step_rate(config, vocab, device, precision)
        where = f"this machine ({device}, {precision}), from a real step measured now"
    yield "speed", f"{rate:,.0f} tokens/s: {where}"
    yield "time", f"{duration(tokens / rate)}, without evaluation"


def outline(config: Config, here: float) -> tuple[str, str, str, str]:
    """Return parameters, tokens, FLOPs and time; `here` is this machine's FLOPs a second."""
    size = nominal_size(config.data.tokenizer)
    assert size is not None, "a recipe names a known tokenizer"
    tokens = training_tokens(config)
    flops = tokens * training_flops(config, size)
    takes = f"{duration(flops / here)} here"
    count, gpu = LARGE
    seconds = flops / (count * UTILISATION * GPUS[gpu].flops)
    if flops / here > LONG and seconds > SHORT:  # a busy machine measures slow: small ones stay
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
    share = head_share(config)
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
