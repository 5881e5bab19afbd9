"""Checkpoints of a training: one process writes them, or each its shards while training goes on.

A sharded run is saved by PyTorch's distributed checkpoints in safetensors form: every process
copies its rows, goes on with the training, and writes them in a thread. When all are done the first
process seals the folder, so that a checkpoint is there whole or not at all. The tensors' names
are those of train.safetensors, whatever the number of processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.models.manifest import MANIFEST
from adlm.train.ema import Ema
from adlm.train.optim import Optimizers
from adlm.train.workload import RunState, Workload
from adlm.world import World


class ShardWriter(HuggingFaceStorageWriter):
    """Writes a process's shards; when all have, the first process calls `seal`."""

    def __init__(self, folder: Path, seal: Callable[[], None]):
        super().__init__(str(folder), save_distributed=True)
        self.seal = seal

    def finish(self, metadata: Any, results: Any) -> None:
        self.seal()


class Saver:
    """Writes and reads the checkpoints of one run."""

    def __init__(self, workload: Workload, run: Path, world: World, sharded: bool):
        self.workload, self.run, self.world, self.sharded = workload, run, world, sharded
        # of its own: the thread that writes talks to the others while the training does
        self.group = dist.new_group(backend="gloo") if sharded else None
        self.pending: Future[Any] | None = None

    def save(self, state: RunState, ema: Ema, optim: Optimizers) -> None:
        """Write a checkpoint; of a sharded run it is there after `wait`."""
        model = self.workload.model
        training = {f"weights.{k}": v for k, v in model.state_dict().items()}
        training |= {f"optim.{k}": v for k, v in optim.state().items()}
        training |= {f"ema.{k}": v for k, v in ema.state().items()}
        if self.sharded:
            self.begin(state, training)
            return
        if self.world.main:
            with ema.swapped():
                averaged = {k: v.clone() for k, v in model.state_dict().items()}
            self.write(state, averaged, training)
        self.world.wait()

    def write(
        self, state: RunState, averaged: dict[str, Tensor], training: dict[str, Tensor]
    ) -> None:
        """Write all tensors from this process."""
        workload = self.workload
        checkpoint.save(
            self.run,
            state.step,
            workload.config,
            workload.vocab,
            averaged,
            training,
            workload.state(state),
            workload.cadence.keep,
            workload.lengths,
            workload.counts,
        )

    def begin(self, state: RunState, tensors: dict[str, Tensor]) -> None:
        """Copy this process's shards and have them written while the training goes on."""
        self.wait()
        workload, keep = self.workload, self.workload.cadence.keep
        final = self.run / "checkpoints" / f"step-{state.step:08d}"
        work = final.parent / f".{final.name}.parts.tmp"
        if (final / MANIFEST).is_file():
            return
        if self.world.main:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            checkpoint.write_settings(work, workload.config, workload.vocab, workload.lengths)
            checkpoint.write_state(work, workload.state(state))
        self.world.wait()

        def seal() -> None:
            checkpoint.seal(work, final)
            checkpoint.drop(self.run, keep)

        made = dcp.async_save(
            tensors | checkpoint.named_counts(workload.counts),
            storage_writer=ShardWriter(work, seal),
            process_group=self.group,
        )
        assert isinstance(made, Future)
        self.pending = made

    def wait(self) -> None:
        """Wait until the last checkpoint is there."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        try:
            pending.result()
        except CheckpointException as error:
            _, (first, _) = next(iter(sorted(error.failures.items())))
            raise UserError(
                f"a checkpoint in {self.run} could not be written ({first}); "
                "earlier ones are untouched"
            ) from None

    def read(self, saved: Checkpoint, optim: Optimizers) -> dict[str, Tensor]:
        """Return a checkpoint's tensors of training: whole, or of a sharded run its own rows."""
        if not self.sharded:
            return saved.training()
        reader = HuggingFaceStorageReader(str(saved.path))
        names = reader.read_metadata().state_dict_metadata
        own = self.workload.model.state_dict()
        tensors = {}
        for name, found in names.items():
            kind, _, rest = name.partition(".")
            if kind in ("weights", "ema", "optim") and isinstance(found, TensorStorageMetadata):
                like = optim.owner(rest) if kind == "optim" else own.get(rest)
                if like is None or like.shape != found.size:
                    like = torch.empty(found.size)  # a step's number, or what will be refused
                tensors[name] = torch.empty_like(like)
        try:
            dcp.load(tensors, storage_reader=reader, process_group=self.group)
        except CheckpointException as error:
            raise UserError(f"{saved.path} cannot be read ({error})") from None
        return tensors
