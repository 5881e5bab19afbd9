"""The chunked head against the plain formula, in values and gradients."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from adlm.nn import linear_ce


@pytest.mark.parametrize("forbid", [None, 2])
@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
def test_chunked_equals_plain(monkeypatch, forbid, rows_at_once):
    vocab, width, count = 7, 5, 8
    monkeypatch.setattr(linear_ce, "CHUNK_ELEMENTS", rows_at_once * vocab)
    torch.manual_seed(0)
    h, weight, bias = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((count, width), (vocab, width), (vocab,))
    )
    target = torch.tensor([0, 1, 3, 4, 5, 6, 0, 1])
    scale = torch.rand(count, dtype=torch.float64)
    total, nll = linear_ce.linear_cross_entropy(h, weight, bias, target, scale, forbid)
    (2 * total).backward()
    got = [p.grad.clone() for p in (h, weight, bias)]
    for p in (h, weight, bias):
        p.grad = None
    logits = h @ weight.T + bias
    if forbid is not None:
        keep = [v for v in range(vocab) if v != forbid]
        logits = logits[:, keep]
        target = torch.tensor([keep.index(t) for t in target.tolist()])
    expected = F.cross_entropy(logits, target, reduction="none")
    (2 * (expected * scale).sum()).backward()
    assert torch.allclose(nll, expected, rtol=1e-12)
    assert torch.allclose(total, (expected * scale).sum(), rtol=1e-12)
    for a, p in zip(got, (h, weight, bias), strict=True):
        assert torch.allclose(a, p.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("few", [1, 2, 3])
def test_a_chunk_is_worked_on_in_parts(monkeypatch, few):
    monkeypatch.setattr(linear_ce, "CHUNK_ELEMENTS", 5 * 7)
    monkeypatch.setattr(linear_ce, "CACHE_ELEMENTS", few * 7)
    torch.manual_seed(0)
    h, weight, bias = (torch.randn(s, requires_grad=True) for s in ((12, 4), (7, 4), (7,)))
    target, scale = torch.randint(0, 7, (12,)), torch.rand(12)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            total, nll = linear_ce.linear_cross_entropy(h, weight, bias, target, scale)
        found.append((nll, *torch.autograd.grad(total, (h, weight, bias))))
    expected = F.cross_entropy(F.linear(h, weight, bias), target, reduction="none")
    wanted = (expected, *torch.autograd.grad((expected * scale).sum(), (h, weight, bias)))
    for exact, rounded, right in zip(*found, wanted, strict=True):
        assert torch.allclose(exact, right, atol=1e-5)
        assert torch.allclose(rounded, right, atol=0.05)


def test_without_gradients_the_logits_are_the_only_product():
    class Products(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            self.count += "mm" in op.__name__
            return op(*args, **(kwargs or {}))

    h, weight = torch.randn(6, 4, requires_grad=True), torch.randn(7, 4, requires_grad=True)
    target, scale = torch.zeros(6, dtype=torch.long), torch.ones(6)
    for number, grad in ((1, False), (3, True)):
        with torch.set_grad_enabled(grad), Products() as seen:
            linear_ce.linear_cross_entropy(h, weight, None, target, scale)
        assert seen.count == number


def test_no_rows_is_no_loss():
    h = torch.zeros(0, 4, requires_grad=True)
    weight = torch.randn(6, 4, requires_grad=True)
    total, nll = linear_ce.linear_cross_entropy(
        h, weight, None, torch.zeros(0, dtype=torch.long), torch.zeros(0)
    )
    total.backward()
    assert total.item() == 0
    assert len(nll) == 0
    assert (weight.grad == 0).all()


def test_losses_are_fp32_under_bf16():
    h, weight = torch.randn(4, 8), torch.randn(16, 8)
    with torch.autocast("cpu", torch.bfloat16):
        total, nll = linear_ce.linear_cross_entropy(h, weight, None, torch.arange(4), torch.ones(4))
    assert nll.dtype == total.dtype == torch.float32


MEMORY = """
import sys, torch
import torch.nn.functional as F
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.system import peak_memory_mib
torch.set_num_threads(1)
h = torch.randn(4096, 16, requires_grad=True)
weight = torch.randn(32768, 16, requires_grad=True)
target, scale = torch.zeros(4096, dtype=torch.long), torch.ones(4096)
before = peak_memory_mib()
if sys.argv[1] == "chunked":
    linear_cross_entropy(h, weight, None, target, scale)[0].backward()
else:
    F.cross_entropy(h @ weight.T, target, reduction="sum").backward()
print(peak_memory_mib() - before)
"""


def test_memory_does_not_grow_with_tokens_times_vocabulary():
    """4096 x 32768 logits are 512 MiB: the plain path holds some copies, the chunked one none."""
    grown = {}
    for path in ("chunked", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True
        )
        grown[path] = float(done.stdout)
    assert grown["plain"] > 1000
    assert grown["chunked"] < 300


def test_a_second_backward_pass_is_refused_rather_than_scaled_twice():
    h, weight = torch.randn(4, 8, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    total, _ = linear_ce.linear_cross_entropy(h, weight, None, torch.arange(4), torch.ones(4))
    (2 * total).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
