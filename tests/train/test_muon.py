"""Muon in a chosen precision."""

from __future__ import annotations

import pytest
import torch

from adlm.train.muon import Muon, orthogonal


def twins(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(8, 8), (24, 8), (8, 32), (8, 8)]
    values = [torch.randn(shape, generator=generator) for shape in shapes]
    return [[torch.nn.Parameter(v.clone()) for v in values] for _ in range(2)]


@pytest.mark.parametrize(("precision", "off"), [("bf16", 1e-6), ("fp32", 5e-3)])
def test_updates_are_those_of_torch_up_to_its_bf16(precision, off):
    ours, theirs = twins()
    mine = Muon(ours, 0.02, weight_decay=0.1, precision=precision)
    reference = torch.optim.Muon(theirs, lr=0.02, momentum=0.95, weight_decay=0.1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        mine.step()
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= off
        assert torch.equal(mine.state[a]["momentum_buffer"], reference.state[b]["momentum_buffer"])


@pytest.mark.parametrize("shape", [(5, 5), (12, 5), (5, 12)])
def test_singular_values_become_about_one_and_directions_stay(shape):
    matrices = torch.randn(
        3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    turned = orthogonal(matrices)
    s = torch.linalg.svdvals(turned)
    assert turned.dtype == torch.float64
    assert s.min() > 0.5
    assert s.max() < 1.3
    wanted_u, _, wanted_vh = torch.linalg.svd(matrices, full_matrices=False)
    overlap = torch.einsum("nrk,nrc,nkc->nk", wanted_u, turned, wanted_vh)  # U^T X V's diagonal
    assert (overlap > 0.5).all()


def test_a_matrix_without_gradient_rests():
    ours, _ = twins()
    ours[0].grad = torch.ones_like(ours[0])
    before = [p.detach().clone() for p in ours]
    Muon(ours, 0.1).step()
    assert not torch.equal(ours[0], before[0])
    assert all(torch.equal(p, q) for p, q in zip(ours[1:], before[1:], strict=True))
