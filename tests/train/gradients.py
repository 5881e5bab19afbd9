"""Gradients of one batch, by however many processes torchrun has started.

torchrun --nproc-per-node 2 -m tests.train.gradients CONFIGS OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from adlm.config import Config, from_dict
from adlm.data.loader import share
from adlm.train import distributed
from adlm.train.distributed import World
from adlm.train.loop import Trainer


def gradients(config: Config, world: World) -> dict[str, torch.Tensor]:
    """The gradient of each weight, from weights and noise that depend on the seed alone."""
    trainer = Trainer(config, Path("."), world, "cpu")
    torch.manual_seed(0)
    for p in trainer.model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    cfg = trainer.config.train
    generator = torch.Generator().manual_seed(5)
    noise = trainer.objective.noise(cfg.batch, trainer.rows.length, generator)
    index = trainer.order.step(0)
    mine = share(cfg.batch, world.rank, world.size)
    trainer.accumulate(
        trainer.rows.batch(index[mine]),
        None if noise is None else noise[mine],
        int(trainer.rows.count[index].sum()),
    )
    found = {n: p.grad for n, p in trainer.model.named_parameters()}
    return {n: g for n, g in found.items() if g is not None}


if __name__ == "__main__":
    torch.set_num_threads(1)
    world = distributed.start("cpu")
    for name, values in json.loads(sys.argv[1]).items():
        made = gradients(from_dict(values), world)
        if world.main:
            save_file(made, Path(sys.argv[2]) / name)
        world.wait()
    distributed.finish(world)
