"""Optimisers and the learning-rate schedule."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from adlm import device as devices
from adlm.config import OptimConfig
from adlm.errors import UserError
from adlm.models.tensors import fit_one
from adlm.nn.transformer import Trunk
from adlm.train.muon import Muon
from adlm.world import World

# what each optimiser keeps of a weight
MOMENTS = {"adamw": {"step", "exp_avg", "exp_avg_sq"}, "muon": {"momentum_buffer"}}


class Optimizers:
    """AdamW alone, or Muon for the trunk's matrices beside AdamW for everything else."""

    def __init__(self, model: nn.Module, config: OptimConfig, precision: str = "fp32"):
        self.config = config
        matrices = trunk_matrices(model) if config.name == "muon" else []
        taken = {id(p) for p in matrices}
        rest = [p for p in model.parameters() if id(p) not in taken]
        decayed = [p for p in rest if p.ndim >= 2]
        plain = [p for p in rest if p.ndim < 2]
        slow = {id(p) for p in bridge_matrices(model)} if config.bridge_lr else set()
        decay = config.weight_decay
        groups = [
            {"params": [p for p in decayed if id(p) not in slow], "weight_decay": decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        if slow:
            bridge = [p for p in decayed if id(p) in slow]
            groups.append({"params": bridge, "weight_decay": decay, "lr": config.bridge_lr})
        self.all: dict[str, torch.optim.Optimizer] = {
            "adamw": torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=True)
        }
        if matrices:
            turns = turning(precision, matrices[0].device)
            self.all["muon"] = Muon(
                matrices, config.muon_lr, weight_decay=config.weight_decay, precision=turns
            )
        self.base = {
            name: [group["lr"] for group in optimizer.param_groups]
            for name, optimizer in self.all.items()
        }

    def step(self, step: int, total: int) -> float:
        """One update at the schedule's rate; returns the schedule's factor."""
        factor = lr_factor(step, total, self.config)
        for name, optimizer in self.all.items():
            for group, base in zip(optimizer.param_groups, self.base[name], strict=True):
                group["lr"] = base * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return factor

    def state(self) -> dict[str, Tensor]:
        """Return all moments as flat named tensors."""
        out = {}
        for name, optimizer in self.all.items():
            for index, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    out[f"{name}.{index}.{key}"] = torch.as_tensor(value)
        return out

    def owner(self, name: str) -> Tensor | None:
        """Return the weight whose moment has this name, as `state` gives it."""
        optimizer, index, key = [*name.split("."), "", "", ""][:3]
        if key not in MOMENTS.get(optimizer, ()) or optimizer not in self.all:
            return None
        every = [p for group in self.all[optimizer].param_groups for p in group["params"]]
        known = {str(number): p for number, p in enumerate(every)}
        return known.get(index) if name.count(".") == 2 else None

    def load(self, tensors: dict[str, Tensor], path: Path) -> None:
        """Take back what `state` gave, from a file; what does not fit is refused, not stretched."""
        for full, tensor in tensors.items():
            weight, key = self.owner(full), full.rpartition(".")[2]
            if weight is None:
                raise UserError(f"{path} does not fit its optimiser: it has a tensor optim.{full}")
            own = torch.zeros(()) if key == "step" else weight.detach()
            fit_one(tensor, own, f"optim.{full}", path)
        for name, optimizer in self.all.items():
            state: dict[int, dict[str, Tensor]] = {}
            for full, tensor in tensors.items():
                owner, index, key = full.split(".", 2)
                if owner == name:
                    state.setdefault(int(index), {})[key] = tensor
            for number, moments in state.items():
                if missing := sorted(MOMENTS[name] - set(moments)):
                    lacks = f"it lacks the tensor optim.{name}.{number}.{missing[0]}"
                    raise UserError(f"{path} does not fit its optimiser: {lacks}")
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": state, "param_groups": groups})


def turning(precision: str, device: torch.device) -> str:
    """Return the precision of Muon's orthogonalisation: the run's, but bf16 only where it is fast.

    Where one of several processes is slow at bf16 all take fp32, so that their weights stay equal.
    """
    if precision != "bf16":
        return precision
    size = dist.get_world_size() if dist.is_initialized() else 1
    slow = World(size=size).most(not devices.fast_bf16(str(device)))
    return "fp32" if slow else "bf16"


def bridge_matrices(model: nn.Module) -> list[Tensor]:
    """The bridge's own matrices, where the model has an anchor network."""
    bridge = getattr(model, "bridge", None)
    return [] if bridge is None else [p for p in bridge.parameters() if p.ndim >= 2]


def trunk_matrices(model: nn.Module) -> list[Tensor]:
    """Hidden matrices are Muon's; embeddings, heads, norms and a convolution's taps are not."""
    trunks = [m for m in model.modules() if isinstance(m, Trunk)]
    return [m.weight for t in trunks for m in t.modules() if isinstance(m, nn.Linear)]


def lr_factor(step: int, total: int, config: OptimConfig) -> float:
    """Return the schedule: linear warm-up, then constant, cosine or linear decay.

    Example:
        >>> config = OptimConfig(warmup=2, decay="linear", decay_share=0.5)
        >>> [round(lr_factor(s, 8, config), 2) for s in range(8)]
        [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.decay == "constant":
        return warm
    if config.decay == "cosine":
        return warm * (0.5 + 0.5 * math.cos(math.pi * min(1.0, step / total)))
    return warm * min(1.0, (total - step) / (total * config.decay_share))
