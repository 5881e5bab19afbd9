"""How weights and gradients are spread over processes: PyTorch's DDP, or FSDP2 block by block.

    none   each process has everything, gradients are averaged (DDP)
    grad   between steps each has its rows of every weight, moment and average, and of the
           gradients; weights are gathered once a step and kept until its last backward pass
    full   a block's weights are gathered when it is passed and let go at once; gradients are
           reduced after every piece of a batch, so that none ever has them all

A sharded weight is a DTensor whose rows are dealt out, `Shard(0)`. What is done to each number
alone (AdamW, EMA) is done to the `local` rows; Muon needs whole matrices, see `by_matrix`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from adlm.nn.block import Block
from adlm.nn.transformer import Trunk
from adlm.world import World

Mode = Literal["none", "grad", "full"]


def prepare(model: nn.Module, compiled: bool, again: bool, sharded: bool) -> None:
    """Have blocks computed `again` in the backward pass, and the trunk compiled.

    Gathering weights and computing again happen between blocks, so those are compiled one by one.
    """
    for block in blocks(model):
        block.again = again
    apart = again or sharded
    for module in model.modules() if compiled else ():
        if isinstance(module, Block if apart else Trunk):
            module.compile()


def blocks(model: nn.Module) -> list[Block]:
    """List a model's blocks."""
    return [m for m in model.modules() if isinstance(m, Block)]


def wrap(
    module: nn.Module,
    world: World,
    device: str,
    mode: Mode = "none",
    precision: str = "fp32",
    idle: bool = False,
) -> nn.Module:
    """Average a module's gradients over processes; `idle`: some weights may rest.

    Its parameters become shards, unless the mode is none or there is one process only. In bf16
    blocks are gathered in bf16, which is what products round to; their gradients add up in fp32.
    """
    kind = torch.device(device).type
    if world.size == 1:
        return module
    if mode == "none":
        ids = [torch.device(device).index or 0] if kind == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, find_unused_parameters=idle)
    mesh = init_device_mesh(kind, (world.size,))
    narrow = torch.bfloat16 if precision == "bf16" else None
    how = MixedPrecisionPolicy(narrow, torch.float32, cast_forward_inputs=False)
    for block in blocks(module):
        fully_shard(block, mesh=mesh, reshard_after_forward=mode == "full", mp_policy=how)
    # the rest (embeddings, heads, bridge) is needed at the end and at the start of a backward pass
    fully_shard(module, mesh=mesh, reshard_after_forward=False)
    for part in parts(module):
        part.set_force_sum_reduction_for_comms(True)  # gloo has no mean
    return module


def parts(module: nn.Module) -> list[FSDPModule]:
    """List the modules that gather and let go on their own; none where nothing is sharded."""
    return [m for m in module.modules() if isinstance(m, FSDPModule)]


def sharded(module: nn.Module) -> bool:
    return isinstance(module, FSDPModule)


def turns(module: nn.Module, world: World, pieces: int) -> int:
    """Return how many passes a step has here: as many everywhere, where weights are gathered."""
    return world.most(pieces) if sharded(module) else pieces


def sync(module: nn.Module, last: bool, mode: Mode = "none") -> None:
    """Before a pass: keep gradients here until the last one, except where none has room for all."""
    if isinstance(module, DistributedDataParallel):
        module.require_backward_grad_sync = last
    elif isinstance(module, FSDPModule) and mode == "grad":
        module.set_requires_gradient_sync(last)
        module.set_reshard_after_backward(last)


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """Inside, parts of a sharded module can be called; afterwards all have shards again."""
    if isinstance(module, FSDPModule):
        module.unshard()
    try:
        yield
    finally:
        for part in parts(module):
            part.reshard()


def local(tensor: Tensor) -> Tensor:
    """Return the rows that are on this process; of a tensor that is not sharded, all."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def clip(weights: Iterable[nn.Parameter], limit: float) -> float:
    """Scale gradients so that the norm of all, over all shards, is at most `limit`; return it."""
    every = [w for w in weights if w.grad is not None]
    norm = nn.utils.get_total_norm([w.grad for w in every if w.grad is not None])
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    nn.utils.clip_grads_with_norm_(every, limit, norm)
    return float(norm)


def by_matrix(
    f: Callable[[Tensor], Tensor], rows: list[Tensor], like: Tensor, dtype: torch.dtype | None
) -> Tensor:
    """f of whole matrices of one shape, of each of which the processes have some rows.

    Args:
        f: (n, R, C) -> (n, R, C), each matrix by itself.
        rows: N of (r, C), this process's rows of each matrix.
        like: One of the weights, (R, C), which knows who has which rows.
        dtype: What travels.

    Returns:
        (N, r, C), this process's rows of the results. Matrices are dealt out by an all-to-all, so
        each is worked on by one process, and their rows come back by another.
    """
    stacked = torch.stack(rows)
    if not isinstance(like, DTensor):
        return f(stacked)
    stacked = stacked if dtype is None else stacked.to(dtype)
    shape = torch.Size((len(rows), *like.shape))
    stride = (shape[1] * shape[2], shape[2], 1)

    def dealt(x: Tensor, old: int, new: int) -> Tensor:
        made = DTensor.from_local(
            x, like.device_mesh, [Shard(old)], run_check=False, shape=shape, stride=stride
        )
        return made.redistribute(placements=[Shard(new)]).to_local()

    mine = dealt(stacked, 1, 0)  # (n, R, C)
    return dealt(f(mine).contiguous() if len(mine) else mine, 0, 1)
