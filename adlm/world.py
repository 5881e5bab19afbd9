"""Several processes: torchrun starts them, and a World is one process's place among all.

What they tell each other here are a few numbers, by gloo in fp64 on the CPU, on any device. How
gradients and weights travel is `train/shard.py`.
"""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from adlm.device import pick
from adlm.errors import RunStopped, UserError
from adlm.progress import console

# what gloo, NCCL and the store say when another process is gone
LOST = r"closed by peer|reset by peer|broken pipe|gloo|nccl|timed? ?out|failed to (recv|connect)"


PATIENCE = 600  # seconds until all processes must have come


@dataclass(frozen=True)
class World:
    """This process's place among all."""

    rank: int = 0
    size: int = 1
    guest: bool = False  # whoever made the group leaves it

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Sum numbers over all processes."""
        return self.add(np.array(values, dtype=np.float64)).tolist()

    def add(self, array: np.ndarray) -> np.ndarray:
        """Sum an array over all processes; where all but one have zeros, that is exact."""
        if self.size == 1:
            return array
        tensor = torch.from_numpy(np.ascontiguousarray(array)).clone()
        dist.all_reduce(tensor)
        return tensor.numpy()

    def most(self, value: int) -> int:
        """Return the largest of the processes' numbers."""
        if self.size == 1:
            return value
        tensor = torch.tensor(value)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.sum(0.0)


def world_size() -> int:
    """Return how many processes torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def start(device: str) -> World:
    """Join the other processes, where torchrun has started several."""
    size = world_size()
    if size == 1:
        return World()
    if device == "mps":
        raise UserError("several processes cannot share an Apple GPU: take the device cpu")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    guest = dist.is_initialized()
    if not guest:
        store, rank, size = next(rendezvous("env://"))
        store = dist.PrefixStore(agree(store, rank, size), store)
        kind = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(kind, store=store, rank=rank, world_size=size)
    return World(dist.get_rank(), size, guest)


def agree(store: dist.Store, rank: int, size: int) -> str:
    """Return one new name on all processes, under which they find each other.

    torchrun's store keeps what processes wrote that were lost since, and their addresses with it.
    So each says a word of its own, and only the first process's answer to that very word counts.
    """
    word, until = uuid.uuid4().hex, time.monotonic() + PATIENCE
    others = range(1, size)
    if rank:
        store.set(f"adlm/word/{rank}", word)
    while time.monotonic() < until:
        for r in others if rank == 0 else ():
            if store.check([f"adlm/word/{r}"]):
                store.set(f"adlm/answer/{r}", store.get(f"adlm/word/{r}").decode() + word)
        if rank == 0 and store.check([f"adlm/{word}/{r}" for r in others]):
            return word
        if rank and store.check([f"adlm/answer/{rank}"]):
            answer = store.get(f"adlm/answer/{rank}").decode()
            if answer.startswith(word):
                name = answer.removeprefix(word)
                store.set(f"adlm/{name}/{rank}", "heard")
                return name
        time.sleep(0.01)
    raise UserError(f"process {rank} of {size} waited {PATIENCE} s, and not all others came")


def finish(world: World) -> None:
    """Leave the group."""
    if world.size > 1 and not world.guest:
        dist.destroy_process_group()


def restarted() -> bool:
    """Has torchrun started this process again, after one was lost?"""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def one_for_all(world: World, again: str) -> Iterator[None]:
    """Let the loss of another process end this one with one sentence; `again` says what helps."""
    try:
        yield
    except RuntimeError as error:
        if world.size == 1 or not re.search(LOST, str(error), re.I):
            raise
        raise RunStopped(
            f"process {world.rank} of {world.size} stops, for another one was lost; {again}"
        ) from None


@contextmanager
def together(device: str) -> Iterator[World]:
    """Join the other processes for one command; all but the first one print nothing."""
    world = start(pick(device))
    stdout = sys.stdout
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            if not world.main:
                sys.stdout, console.quiet = nowhere, True
            with one_for_all(world, "start the command again"):
                yield world
                world.wait()  # none leaves while another may still be talking to it
    finally:
        sys.stdout, console.quiet = stdout, False
        finish(world)
