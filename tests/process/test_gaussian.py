"""Duo's Gaussian noise is the uniform kernel's; the few numbers drawn are the largest of all."""

from __future__ import annotations

import torch
from scipy.stats import chisquare

from adlm.process.gaussian import NUMBERS, OTHERS, Gaussian, distinct

COUNT = 40_000


def drawn(real: int, v: float, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(1, COUNT, NUMBERS, generator=generator)
    x = torch.full((1, COUNT), 2)
    near, share = Gaussian(real, tau=tau).draw(x, torch.tensor([v]), u)
    return near[0], share[0]


def test_the_argmax_is_uniform_noise_of_the_said_alpha():
    for real, v in ((5, 0.9), (40, 0.8)):
        near, _ = drawn(real, v, 1e-3)
        alpha = Gaussian(real).alpha(torch.tensor([v]))[0]
        wanted = torch.full((real,), float((1 - alpha) / real)).double()
        wanted[2] += float(alpha)
        seen = torch.bincount(near[:, 0], minlength=real)
        assert chisquare(seen.numpy(), (wanted * COUNT).numpy()).pvalue > 1e-3


def test_alpha_has_its_derivative():
    v = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    ours, step = Gaussian(50_257), 1e-5
    slope = (ours.alpha(v + step)[0] - ours.alpha(v - step)[0]) / (2 * step)
    assert torch.allclose(ours.alpha(v)[1], slope, rtol=1e-6)


def test_shares_are_those_of_the_softmax_of_all_numbers():
    real, v, tau = OTHERS + 1, 0.7, 0.2  # few enough that all are drawn
    _, share = drawn(real, v, tau)
    a = Gaussian(real).strength(torch.tensor(v).double())
    w = torch.randn(COUNT, real, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    w[:, 2] += a
    right = (w / torch.sqrt(1 + a**2) / tau).softmax(dim=1).sort(dim=1, descending=True).values
    error = (share.var(dim=0) / COUNT + right.var(dim=0) / COUNT).sqrt()
    assert ((share.mean(dim=0) - right.mean(dim=0)).abs() < 4 * error).all()


def test_no_two_tokens_are_alike_and_all_are_as_likely():
    x = torch.full((1, COUNT), 2)
    u = torch.rand(1, COUNT, 3, generator=torch.Generator().manual_seed(0))
    found = distinct(x, u, 5)[0]
    assert (found.sort(dim=1).values.diff(dim=1) > 0).all()
    for k in (1, 2, 3):
        seen = torch.bincount(found[:, k], minlength=5)
        assert seen[2] == 0
        assert chisquare(seen[[0, 1, 3, 4]].numpy()).pvalue > 1e-3
