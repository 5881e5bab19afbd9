"""`adlm plan`."""

from __future__ import annotations

from adlm import budget
from adlm.config import Config, check
from adlm.data.corpus import open_vocab
from adlm.models.adapt import open_base


def plan(
    recipe: str,
    config: Config,
    size: str | None = None,
    gpu: str | None = None,
    count: int = 1,
) -> None:
    """Tell what a recipe needs: parameters, FLOPs, memory and hours.

    Args:
        recipe: Name of a recipe; 'adlm recipes' lists them.
        config: The recipe's settings.
        size: pico, nano, micro, tiny, small or medium.
        gpu: Plan for this GPU (t4, v100, l4, rtx4090, a100, h100, gh200) instead of this machine.
        count: How many GPUs.
    """
    check(count >= 1, "--count", count, "at least 1")
    if gpu is not None:
        budget.find_gpu(gpu)
    vocab = open_base(config.base.name).vocab if config.base.name else open_vocab(config.data)
    print(f"{recipe}: {config.objective}, {vocab.size:,} tokens in the vocabulary")
    for label, value in budget.plan(config, vocab, gpu, count):
        print(f"{label:<18}{value}", flush=True)
