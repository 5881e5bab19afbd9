"""Gradients of one batch, by however many processes torchrun has started.

torchrun --nproc-per-node 2 -m tests.train.gradients CONFIGS OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from adlm import world as distributed
from adlm.config import Config, from_dict
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.world import World


def gradients(config: Config, world: World) -> dict[str, torch.Tensor]:
    """The gradient of each weight, from weights and noise that depend on the seed alone."""
    engine = Engine(LanguageModelling(config, "cpu"), Path("."), world)
    torch.manual_seed(0)
    for p in engine.model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    engine.accumulate(engine.workload.portion(0, world))
    found = {n: p.grad for n, p in engine.model.named_parameters()}
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
