"""Several processes: torchrun starts them, PyTorch's DDP averages their gradients."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adlm.errors import UserError


@dataclass(frozen=True)
class World:
    """This process's place among all."""

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Sum numbers over all processes."""
        if self.size == 1:
            return list(values)
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()

    def wrap(self, module: nn.Module, device: str, idle: bool = False) -> nn.Module:
        """Average the module's gradients over processes; `idle`: some weights may rest."""
        if self.size == 1:
            return module
        ids = [torch.device(device).index or 0] if device.startswith("cuda") else None
        return DistributedDataParallel(module, device_ids=ids, find_unused_parameters=idle)

    def sync(self, wrapped: nn.Module, last: bool) -> None:
        """Let a wrapped module talk to the other processes at the last backward pass only."""
        if self.size > 1:
            wrapped.require_backward_grad_sync = last  # type: ignore[assignment]


def world_size() -> int:
    """Return how many processes torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def start(device: str) -> World:
    """Join the other processes, where torchrun has started several."""
    size = world_size()
    if size == 1:
        return World()
    if device == "mps":
        raise UserError("several processes cannot share an Apple GPU: take --train.device cpu")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return World(dist.get_rank(), size)


def finish(world: World) -> None:
    """Leave the group."""
    if world.size > 1:
        dist.destroy_process_group()
