"""Any loss of logits in chunks equals the same at once, and its memory does not grow with rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from adlm.nn import chunked as module
from adlm.nn.chunked import chunked


def loss(logits: torch.Tensor, target: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target, reduction="none") ** power + logits.exp().mean(dim=1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
def test_chunks_are_the_whole_in_values_and_gradients(monkeypatch, rows_at_once, bias):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", rows_at_once * 7)
    torch.manual_seed(0)
    head = nn.Linear(5, 7, bias=bias).double()
    h = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    target, power = torch.randint(0, 7, (8,)), torch.rand(8).double() + 1
    scale = torch.rand(8, dtype=torch.float64)
    total, nats = chunked(loss, h, head, scale, target, power)
    wanted = loss(head(h), target, power)
    given = [h, *head.parameters()]
    ours = torch.autograd.grad(2 * total, given)
    right = torch.autograd.grad(2 * (wanted * scale).sum(), given)
    assert torch.allclose(nats, wanted, rtol=1e-12)
    assert torch.allclose(total, (wanted * scale).sum(), rtol=1e-12)
    assert not nats.requires_grad
    for a, b in zip(ours, right, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


def test_without_gradients_only_values_are_made():
    h, head = torch.randn(4, 5), nn.Linear(5, 7)
    with torch.no_grad():
        total, nats = chunked(lambda logits: logits.logsumexp(1), h, head, torch.ones(4))
    assert torch.allclose(total, head(h).logsumexp(1).sum())
    assert not total.requires_grad
    assert nats.shape == (4,)


class Largest(TorchDispatchMode):
    """The largest array that any operation makes."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.size = max(self.size, x.numel())
        return out


def test_no_array_grows_with_rows_times_vocabulary(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 2000)
    head = nn.Linear(4, 1000)
    found = []
    for rows in (4, 64):
        h = torch.randn(rows, 4, requires_grad=True)
        with Largest() as seen:
            chunked(lambda logits: logits.logsumexp(1), h, head, torch.ones(rows))[0].backward()
        found.append(seen.size)
    assert found == [4000, 4000]  # the head's own weight
