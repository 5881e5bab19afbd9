"""`adlm plan`."""

from __future__ import annotations

from typing import Literal

from adlm import budget
from adlm.config import Config, check
from adlm.data.corpus import open_vocab
from adlm.data.vocab import byte_vocab
from adlm.models.adapt import open_base
from adlm.objectives.base import make_objective
from adlm.process.anchors import Anchors


def plan(
    recipe: str,
    config: Config,
    size: str | None = None,
    gpu: str | None = None,
    count: int = 1,
    shard: Literal["none", "grad", "full"] = "none",
    utilisation: float = budget.UTILISATION,
    price: float | None = None,
) -> None:
    """Tell what a recipe needs: parameters, FLOPs, memory by its parts, hours and cost.

    Args:
        recipe: Name of a recipe; 'adlm recipes' lists them.
        config: The recipe's settings.
        size: pico, nano, micro, tiny, small or medium.
        gpu: Plan for this GPU (t4, v100, l4, rtx4090, a100, h100, gh200) instead of this machine.
        count: How many GPUs.
        shard: What the GPUs share out: none, grad (gradients, moments, average) or full (all).
        utilisation: Share of the GPU's peak that the training is assumed to reach.
        price: Of one GPU for an hour, in any currency: tells the cost.
    """
    check(1 <= count <= 10**6, "--count", count, "from 1 to 1000000")
    check(0 < utilisation <= 1, "--utilisation", utilisation, "in (0, 1]")
    check(price is None or price >= 0, "--price", price, "0 or more")
    check(gpu is not None or price is None, "--price", price, "given with --gpu")
    check(gpu is not None or shard == "none", "--shard", shard, "none without --gpu")
    check(
        count <= config.train.batch, "--count", count, f"at most train.batch {config.train.batch}"
    )
    if gpu is not None:
        budget.find_gpu(gpu)
    make_objective(config, byte_vocab())  # settings are checked before any data is read
    Anchors(config.anchor, byte_vocab())
    vocab = open_base(config.base.name).vocab if config.base.name else open_vocab(config.data)
    print(f"{recipe}: {config.objective}, {vocab.size:,} tokens in the vocabulary")
    on = budget.Cluster(gpu, count, shard, utilisation, price)
    for label, value in budget.plan(config, vocab, on):
        print(f"{label:<18}{value}", flush=True)
