"""Schedules, time draws and masking."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adlm.config import ProcessConfig
from adlm.errors import UserError
from adlm.process.mask import bernoulli, discrete, exact_k
from adlm.process.schedule import make_schedule
from adlm.process.times import make_times
from adlm.process.weight import make_weight
from adlm.types import Noise

SCHEDULES = ["log-linear", "cosine", "polynomial", "polynomial:0.7"]


@pytest.mark.parametrize("name", [*SCHEDULES, "geometric"])
def test_schedule_is_consistent(name):
    schedule = make_schedule(name)
    t = torch.linspace(0.02, 0.98, 49, dtype=torch.float64, requires_grad=True)
    alpha = schedule.alpha(t)
    (slope,) = torch.autograd.grad(alpha.sum(), t)
    t = t.detach()
    alpha = alpha.detach()
    assert (alpha[1:] < alpha[:-1]).all()
    assert torch.allclose(schedule.dalpha(t), slope)
    assert torch.allclose(schedule.weight(t), -slope / (1 - alpha))
    assert torch.allclose(schedule.t_of_alpha(alpha), t)
    ends = schedule.alpha(torch.tensor([0.0, 1.0], dtype=torch.float64))
    last = math.exp(-20) if name == "geometric" else 0.0
    assert torch.allclose(ends, torch.tensor([1.0, last], dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize(
    "spec",
    ["polynomial:x", "polynomial:-1", "polynomial:0", "polynomial:nan", "log-linear:2", "linear"],
)
def test_bad_schedule_is_one_sentence(spec):
    with pytest.raises(UserError):
        make_schedule(spec)


@pytest.mark.parametrize("name", ["uniform", "antithetic", "stratified"])
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_times_are_uniform_on_the_unit_interval(name, count):
    draw = make_times(name)
    u = torch.rand(4000, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    t = torch.stack([draw(row) for row in u]).flatten()
    assert t.min() > 0
    assert t.max() <= 1
    grid = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    share = (t[None] <= grid[:, None]).double().mean(dim=1)
    assert (share - grid).abs().max() < 4 * 0.5 / (len(t) ** 0.5) * count**0.5


@pytest.mark.parametrize("name", ["antithetic", "stratified"])
def test_spread_times_vary_less(name):
    u = torch.rand(2000, 8, generator=torch.Generator().manual_seed(0))
    spread = torch.stack([make_times(name)(row) for row in u]).mean(dim=1).var()
    plain = torch.stack([make_times("uniform")(row) for row in u]).mean(dim=1).var()
    assert spread < 0.1 * plain


@pytest.mark.parametrize(("centre", "width"), [(0.5, 0.2), (0.3, 0.1), (1.0, 0.4)])
def test_bell_times_have_the_normal_distribution_between_its_edges(centre, width):
    u = torch.rand(4000, 8, generator=torch.Generator().manual_seed(0))
    t = torch.stack([make_times(f"bell:{centre}:{width}")(row) for row in u]).flatten().double()
    assert t.min() >= 0.02
    assert t.max() <= 1
    normal = torch.distributions.Normal(torch.tensor(centre, dtype=torch.float64), width)
    low, high = (normal.cdf(torch.tensor(edge)) for edge in (0.02, 1.0))
    grid = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    wanted = (normal.cdf(grid) - low) / (high - low)
    assert ((t[None] <= grid[:, None]).double().mean(dim=1) - wanted).abs().max() < 0.01


@pytest.mark.parametrize(
    "spec", ["bell:2", "bell:0.5:0", "bell:x", "bell:0.5:0.2:3", "stratified:1"]
)
def test_bad_times_are_one_sentence(spec):
    with pytest.raises(UserError):
        make_times(spec)


@pytest.mark.parametrize("spec", ["clamp:0", "clamp:-1", "clamp:nan", "flat:3", "flatt"])
def test_a_bad_weight_is_one_sentence(spec):
    with pytest.raises(UserError):
        make_weight(spec)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 10_000), st.sampled_from(["b", "k"]))
def test_protected_positions_are_never_hidden(rows, length, seed, rule):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 5, (rows, length), generator=generator)
    maskable = torch.rand(rows, length, generator=generator) < 0.6
    t = 1 - torch.rand(rows, generator=generator)
    noise = Noise(t, torch.rand(rows, length, generator=generator))
    apply = bernoulli if rule == "b" else exact_k
    noised = apply(x, maskable, noise, 9, make_schedule("log-linear"))
    assert not (noised.masked & ~maskable).any()
    assert torch.equal(noised.z == 9, noised.masked)
    assert torch.equal(noised.z[~noised.masked], x[~noised.masked])
    if rule == "k":
        n = maskable.sum(dim=1)
        k = noised.masked.sum(dim=1)
        assert torch.equal(k, torch.ceil(t * n).long().clamp(min=1).minimum(n))


@pytest.mark.parametrize("remask", [0.0, 0.3])
def test_discrete_weights_are_finite_where_a_schedule_is_flat_to_the_last_bit(remask):
    rows = 64
    noise = Noise(torch.arange(1, rows + 1) / rows, torch.rand(rows, 5))
    x = torch.zeros(rows, 5, dtype=torch.long)
    noised = discrete(x, x == 0, noise, 9, make_schedule("polynomial:10"), rows, remask)
    assert noised.weight.isfinite().all()
    assert not noised.masked[0].any()


def test_exact_k_is_uniform_over_k_and_over_subsets():
    rows, length = 60_000, 3
    generator = torch.Generator().manual_seed(0)
    t = 1 - torch.rand(rows, generator=generator)
    noise = Noise(t, torch.rand(rows, length, generator=generator))
    x = torch.zeros(rows, length, dtype=torch.long)
    masked = exact_k(x, x == 0, noise, 9, None).masked
    code = (masked * torch.tensor([1, 2, 4])).sum(dim=1)
    counts = torch.bincount(code, minlength=8).double()
    expected = torch.tensor([0, 1, 1, 1, 1, 1, 1, 3], dtype=torch.float64) / 9 * rows
    assert counts[0] == 0
    chi_square = ((counts - expected)[1:] ** 2 / expected[1:]).sum()
    assert chi_square < 22.5  # 6 degrees of freedom, p = 0.001


@pytest.mark.parametrize("range_", [(-51.0, 0.0), (0.0, 51.0), (1.0, 1.0), (2.0, 1.0)])
def test_the_range_of_softened_noise_rises_between_its_limits(range_):
    assert ProcessConfig(softened=(-50.0, 50.0)).softened == (-50.0, 50.0)
    with pytest.raises(UserError, match="two numbers in"):
        ProcessConfig(softened=range_)
