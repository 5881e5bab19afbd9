"""Measurements of this machine: matrix-product speed, and the speed of a recipe's real step."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from adlm import device as devices
from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.models.anchored import Anchored
from adlm.models.sizes import build
from adlm.objectives.base import make
from adlm.process.anchors import Table
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
    """FLOPs a second of a square matrix product."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(size, size, dtype=dtype, device=device)

    def product() -> None:
        a @ a
        devices.wait_for(device)

    return 2 * size**3 / seconds(product, budget)


def step_rate(
    config: Config, vocab: Vocab, device: str, precision: str, tokens: int = 4096
) -> float:
    """Tokens a second of real training steps on made-up rows, about `tokens` at a time."""
    length = config.data.length
    rows = max(1, min(config.train.batch, tokens // length))
    model = build(config, vocab.size).to(device).train()
    if isinstance(model, Anchored) and model.table() is not None:
        ones = torch.ones(vocab.size, dtype=torch.float64)
        model.set_table(Table(ones, ones, torch.tensor(float(vocab.size))))
    objective = make(config, vocab)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, vocab.size, (rows, length), generator=generator)
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool)).to(device)
    noise = objective.noise(rows, length, generator)
    optim = Optimizers(model, config.optim)
    share = rows / config.train.batch  # the optimiser steps once a batch

    def step(progress: float) -> None:
        with devices.autocast(precision, device):
            score = objective.score(model, batch, noise.to(device) if noise else None, progress)
        score.total.backward()
        devices.wait_for(device)

    def update() -> None:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optim.step(0, 1)

    until = config.anchor.until  # while the anchor loss counts, whether gamma rises or fades
    pass_time = until * seconds(lambda: step(until / 2), 1.0)
    if until < 1:
        pass_time += (1 - until) * seconds(lambda: step(1.0), 1.0)
    update_time = seconds(update, 0.1)
    return rows * length / (pass_time + share * update_time)


def memory_bytes() -> tuple[int, int] | None:
    """Total and available memory of this machine, where the system tells."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        kib = [int(lines[key].split()[0]) for key in ("MemTotal", "MemAvailable")]
    except (OSError, KeyError, ValueError):
        return None
    return kib[0] * 1024, kib[1] * 1024
