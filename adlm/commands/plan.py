"""`adlm plan`."""

from __future__ import annotations

from adlm import device as devices
from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.measure import step_rate
from adlm.models.sizes import (
    flops_per_token,
    head_share,
    parameters,
    step_memory,
    training_flops,
)
from adlm.progress import duration

# dense bf16 (fp16 on T4 and V100) matrix peak in FLOPs a second, from the makers' data sheets
GPUS = {
    "t4": 65e12,
    "v100": 125e12,
    "l4": 121e12,
    "rtx4090": 165e12,
    "a100": 312e12,
    "h100": 989e12,
    "gh200": 989e12,
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
    print(f"{recipe}: {config.objective}, {vocab.size:,} tokens in the vocabulary")
    print(f"parameters        {parameters(config, vocab.size):,}")
    print(f"training tokens   {tokens:,} in {config.train.steps:,} steps")
    print(f"FLOPs a token     {forward:.3g} forward, {step:.3g} in training")
    print(f"FLOPs in all      {step * tokens:.3g}")
    print(f"memory a process  {step_memory(config, vocab.size, world) / 2**30:.1f} GiB, estimated")
    if gpu:
        rate = GPUS[gpu] * UTILISATION * count / step
        where = f"{count} x {gpu} at {UTILISATION:.0%} of the peak, assumed"
    else:
        device = devices.pick(config.train.device)
        precision = devices.precision(config.train.precision, device)
        rate = step_rate(config, vocab, device, precision)
        where = f"this machine ({device}, {precision}), from a real step measured now"
    print(f"speed             {rate:,.0f} tokens/s: {where}")
    print(f"time              {duration(tokens / rate)}, without evaluation")
