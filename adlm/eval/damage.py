"""Damage to the anchors at the bridge, by a dial in [0, 1]: h (B, L, D) -> h."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from adlm.models.anchored import Anchored

Damage = Callable[[Tensor, nn.Linear, float, torch.Generator], Tensor]


def noise(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """Mix with Gaussian noise of the same size, at equal power."""
    drawn = torch.randn(h.shape, generator=generator).to(h) * h.std()
    return (1 - dial**2) ** 0.5 * h + dial * drawn


def shuffle(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """Give a share of the positions the anchors of other positions of their row."""
    moved = pick(h, dial, generator)
    keys = torch.rand(h.shape[:2], generator=generator).to(h.device)
    source = keys.argsort(dim=1)
    other = h.gather(1, source[..., None].expand_as(h))
    return torch.where(moved, other, h)


def wrong(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """Make a share of the positions sure of a random token: its row of the head, h's length."""
    token = torch.randint(len(head.weight), h.shape[:2], generator=generator).to(h.device)
    forced = head.weight[token].to(h.dtype)
    forced = (
        forced / forced.norm(dim=-1, keepdim=True).clamp(min=1e-9) * h.norm(dim=-1, keepdim=True)
    )
    return torch.where(pick(h, dial, generator), forced, h)


def zero(h: Tensor, head: nn.Linear, dial: float, generator: torch.Generator) -> Tensor:
    """Silence a share of the positions."""
    return torch.where(pick(h, dial, generator), torch.zeros_like(h), h)


def pick(h: Tensor, dial: float, generator: torch.Generator) -> Tensor:
    """(B, L, 1) positions that are damaged."""
    return (torch.rand(h.shape[:2], generator=generator) < dial).to(h.device)[..., None]


DAMAGES: dict[str, Damage] = {"noise": noise, "shuffle": shuffle, "wrong": wrong, "zero": zero}


class Damaged(nn.Module):
    """A bridge whose input is damaged."""

    def __init__(self, bridge: nn.Module, damage: Damage, dial: float, seed: int):
        super().__init__()
        self.bridge, self.damage, self.dial = bridge, damage, dial
        self.generator = torch.Generator().manual_seed(seed)
        self.seen: list[Tensor] = []  # damaged states of the last pass

    def forward(self, h: Tensor, head: nn.Linear, embed: nn.Embedding) -> Tensor:
        h = self.damage(h, head, self.dial, self.generator)
        self.seen = [h]
        return self.bridge(h, head, embed)


@contextmanager
def damaged(model: Anchored, name: str, dial: float, seed: int) -> Iterator[Damaged]:
    """Damage the anchors of a model for a while."""
    kept = model.bridge
    made = Damaged(kept, DAMAGES[name], dial, seed)
    model.bridge = made
    try:
        yield made
    finally:
        model.bridge = kept
