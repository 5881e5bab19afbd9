"""`adlm plan`."""

from __future__ import annotations

from typing import NamedTuple

from adlm import device as devices
from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.measure import device_memory, step_rate
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


def start(
    recipe: str,
    config: Config,
    size: str | None = None,
    gpu: str | None = None,
    count: int = 1,
) -> None:
    """Tell what a recipe needs: parameters, FLOPs, memory and hours.

    Args:
        recipe: Name of a recipe; 'adlm recipes' lists them.
        size: pico, nano, micro, tiny, small or medium.
        gpu: Plan for this GPU (t4, v100, l4, rtx4090, a100, h100, gh200) instead of this machine.
        count: How many GPUs.
    """
    if gpu is not None and gpu not in GPUS:
        raise UserError(f"no GPU '{gpu}' is known{nearest(gpu, GPUS)}")
    if count < 1:
        raise UserError(f"--count must be at least 1, found {count}")
    vocab = open_vocab(config.data)
    forward = flops_per_token(config, vocab.size, head_share(config))
    step = training_flops(config, vocab.size)
    tokens = config.train.steps * config.train.batch * config.data.length
    world = count if gpu else 1
    limit = GPUS[gpu].memory << 30 if gpu else device_memory(config.train.device)
    print(f"{recipe}: {config.objective}, {vocab.size:,} tokens in the vocabulary")
    print(f"parameters        {parameters(config, vocab.size):,}")
    print(f"training tokens   {tokens:,} in {config.train.steps:,} steps{counted(config, tokens)}")
    print(f"FLOPs a token     {forward:.3g} forward, {step:.3g} in training")
    print(f"FLOPs in all      {step * tokens:.3g}")
    print(f"memory a process  {memory_verdict(config, vocab.size, world, limit)}")
    if gpu:
        rate = GPUS[gpu].flops * UTILISATION * count / step
        where = f"{count} x {gpu} at {UTILISATION:.0%} of the peak, assumed"
    else:
        device = devices.pick(config.train.device)
        precision = devices.precision(config.train.precision, device)
        rate = step_rate(config, vocab, device, precision)
        where = f"this machine ({device}, {precision}), from a real step measured now"
    print(f"speed             {rate:,.0f} tokens/s: {where}")
    print(f"time              {duration(tokens / rate)}, without evaluation")


def counted(config: Config, tokens: float) -> str:
    """What the papers' tables say in place of that: they count the tokens that are predicted.

    Example:
        >>> counted(Config(objective="mdlm"), 524e9)
        '; half of them, 262 B, are masked and predicted: what the papers count'
        >>> counted(Config(objective="ar"), 262e9)
        ''
    """
    share = head_share(config)
    if share == 1:
        return ""
    return (
        f"; half of them, {amount(share * tokens)}, are masked and predicted: what the papers count"
    )


def amount(count: float) -> str:
    """A large number in three digits.

    Example:
        >>> amount(2_662_400), amount(262.144e9), amount(900)
        ('2.66 M', '262 B', '900')
    """
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,.0f}"
