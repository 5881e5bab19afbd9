"""An exponential moving average of the weights, used for evaluation and in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from adlm.models.tensors import fit


class Ema:
    """average <- decay * average + (1 - decay) * weights, with a warm-up of the decay."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.names = [n for n, _ in model.named_parameters()]
        self.weights: list[Tensor] = list(model.parameters())
        self.average = [p.detach().clone() for p in self.weights] if decay else []

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After optimiser step number `step` (from 0)."""
        if self.decay:
            decay = min(self.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.average, self.weights, 1 - decay)

    def state(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.average, strict=True)) if self.decay else {}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor], path: Path) -> None:
        """Take back what `state` gave, from a file."""
        fit(tensors, self.state(), path)
        for name, tensor in self.state().items():
            tensor.copy_(tensors[name])

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        if not self.decay:
            yield
            return
        kept = [p.detach().clone() for p in self.weights]
        try:
            self._write(self.average)
            yield
        finally:
            self._write(kept)

    @torch.no_grad()
    def _write(self, values: list[Tensor]) -> None:
        torch._foreach_copy_(self.weights, values)
