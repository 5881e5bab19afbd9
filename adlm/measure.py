"""Measurements of this machine: matrix-product speed, and the speed of a recipe's real step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from adlm import device as devices
from adlm.config import Config
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.models.build import build_model
from adlm.models.cost import positions, training_flops
from adlm.nn.effort import Effort, mean_loops
from adlm.objectives.base import make_objective
from adlm.recipes import recipe
from adlm.train.optim import Optimizers
from adlm.types import Batch


def seconds(work: Callable[[], object], budget: float) -> float:
    """Median time of a call, repeated for about `budget` seconds after one call to warm up."""
    work()
    spent: list[float] = []
    while sum(spent) < budget or len(spent) < 3:
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return sorted(spent)[len(spent) // 2]


def matmul_flops(
    precision: str, device: str = "cpu", size: int = 2048, budget: float = 0.5
) -> float:
    """FLOPs a second of a square matrix product: the best rate seen in about `budget` seconds.

    Products begin small and double, up to `size`, while the next, eight times as long, fit into
    what is left of the budget; so a precision at which the machine is slow takes no longer.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    best, spent, took, n = 0.0, 0.0, 0.0, min(128, size)
    while not best or spent + PRODUCTS * took <= budget:
        took = devices.product_seconds(dtype, n, device, PRODUCTS)
        spent += PRODUCTS * took
        best = max(best, 2 * n**3 / took)
        if 2 * n <= size and spent + PRODUCTS * 8 * took <= budget:
            n, took = 2 * n, 8 * took
    return best


PRODUCTS = 4  # at a time; the shortest counts


def step_rate(
    config: Config,
    vocab: Vocab,
    device: str,
    precision: str,
    tokens: int = 4096,
    budget: float = 1.0,
) -> float:
    """Return tokens a second of real training steps on made-up rows, about `tokens` at a time.

    Passes with and without an anchor loss are each repeated for about `budget` seconds.
    """
    length = config.data.length
    rows = max(1, min(config.train.batch, tokens // length))
    model = build_model(config, vocab.size).to(device).train()
    model.trunk.effort = Effort(round(mean_loops(config.model)), 1 + round(config.model.recall))
    objective = make_objective(config, vocab, CorpusCounts.even(vocab.size))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, vocab.size, (rows, length), generator=generator)
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool)).to(device)
    noise = objective.noise(rows, length, generator)
    optim = Optimizers(model, config.optim, precision)
    share = rows / config.train.batch  # the optimiser steps once a batch

    def step(progress: float) -> None:
        gamma = objective.gamma(progress)
        with devices.autocast(precision, device):
            score = objective.score(model, batch, noise.to(device) if noise else None, gamma > 0)
        (score.bound if score.anchor is None else score.bound + gamma * score.anchor).backward()
        devices.wait_for(device)

    def update() -> None:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optim.step(0, 1)

    until = config.anchor.until  # while the anchor loss counts, whether gamma rises or fades
    pass_time = until * seconds(lambda: step(until / 2), budget)
    if until < 1:
        pass_time += (1 - until) * seconds(lambda: step(1.0), budget)
    update_time = seconds(update, 0.1)
    return rows * length / (pass_time + share * update_time)


@dataclass(frozen=True)
class TrainingSpeed:
    """How fast a device trains, by what a token takes:

        seconds = FLOPs / flops + rest * positions * width * blocks.

    A small model's step is mostly the rest: sums, norms, attention and moves of small tensors.

    Example:
        >>> mdlm = recipe("laptop-mdlm")
        >>> here = TrainingSpeed(flops=1e12, rest=0.0)
        >>> here.seconds(mdlm, 2048) * 1e12 == training_flops(mdlm, 2048)
        True
    """

    flops: float  # of matrix products, a second
    rest: float  # seconds for a unit of width of a block, at a position

    def seconds(self, config: Config, vocab_size: int) -> float:
        """Return about how long the training takes for one token."""
        return training_flops(config, vocab_size) / self.flops + self.rest * units(config)


def training_speed(device: str, precision: str) -> TrainingSpeed:
    """Measure in about a second: matrix products, and a real step of laptop-mdlm for the rest."""
    flops = matmul_flops(precision, device, budget=0.2)
    config, vocab = recipe("laptop-mdlm"), made_up(2048)
    took = 1 / step_rate(config, vocab, device, precision, tokens=1024, budget=0.3)
    rest = max(0.0, took - training_flops(config, vocab.size) / flops)
    return TrainingSpeed(flops, rest / units(config))


def units(config: Config) -> int:
    """Return positions * width * blocks of a token."""
    return (
        positions(config) * config.model.width * (config.model.blocks + config.model.anchor_blocks)
    )


def made_up(size: int) -> Vocab:
    """Return a vocabulary of some size, whose last token is the mask."""
    words = {str(token): token for token in range(size)}
    return Vocab(Tokenizer(WordLevel(words, unk_token="0")), size - 1, bos=0, eos=0, pad=0)
