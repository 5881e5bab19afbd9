"""Muon: momentum whose direction is made orthogonal, for the matrices of a trunk.

    m <- m + (1 - beta) (g - m),   d = g + beta (m - g)  (Nesterov),
    w <- w - lr sqrt(max(1, rows / columns)) U V^T,   where d = U S V^T.

U V^T comes from five Newton-Schulz steps X <- a X + (b A + c A^2) X with A = X X^T. They are most
of the cost, so they run in a precision in which the device is fast, on all matrices of one shape
at once, and where weights are sharded each process turns some of the matrices. The state is that of
torch.optim.Muon (`momentum_buffer`), which always uses bf16: a CPU without bf16 units then spends
four fifths of a step there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from adlm.train.shard import by_matrix, local

STEPS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum; `precision` is that of the orthogonalisation."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        precision: str = "fp32",
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = torch.bfloat16 if precision == "bf16" else None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            shapes: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    push = self.push(weight, group["momentum"])
                    shapes[weight.shape].append((weight, push))
            for shape, pairs in shapes.items():
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                turn = partial(orthogonal, dtype=self.dtype)
                turned = by_matrix(turn, [p for _, p in pairs], pairs[0][0], self.dtype)
                for (weight, _), direction in zip(pairs, turned, strict=True):
                    mine = local(weight)
                    mine.mul_(1 - group["lr"] * group["weight_decay"])
                    mine.add_(direction.to(weight.dtype), alpha=-rate)

    def push(self, weight: Tensor, beta: float) -> Tensor:
        """This process's rows of the Nesterov direction, before it is made orthogonal."""
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        assert weight.grad is not None
        momentum, gradient = local(state["momentum_buffer"]), local(weight.grad)
        momentum.lerp_(gradient, 1 - beta)
        return gradient.lerp(momentum, beta)


def orthogonal(matrices: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """U V^T of each of some matrices U S V^T, roughly: (N, R, C) -> (N, R, C), in `dtype`.

    Singular values come out between about 0.7 and 1.2, which serves as well as 1.

    Example:
        >>> turned = orthogonal(torch.eye(3)[None] * 5)[0]
        >>> bool((turned.diagonal() - 1).abs().max() < 0.4)
        True
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # the smaller side is the rows
    x = x.to(dtype or matrices.dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
