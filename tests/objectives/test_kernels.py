"""The baselines are one family: each is MDLM, or its published formula, where it should be."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.objectives.d3pm import step_divergence
from adlm.objectives.gidd import dynamic
from adlm.objectives.kernels import divergence
from adlm.objectives.sedd import masked_entropy, uniform_entropy
from adlm.process.kernel import Kernel, Mask, Mixture, Uniform, make_kernel
from adlm.process.schedule import Geometric, LogLinear, make_schedule

V, MASK, N = 6, 2, 5
REAL = [v for v in range(V) if v != MASK]


def given(count: int = 40, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """logits, z, x, t of positions; z is anything."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, V, dtype=torch.float64, generator=generator)
    real = torch.tensor(REAL)
    x = real[torch.randint(0, N, (count,), generator=generator)]
    z = torch.where(torch.rand(count, generator=generator) < 0.3, x, torch.randint(0, V, (count,)))
    t = 0.02 + 0.96 * torch.rand(count, dtype=torch.float64, generator=generator)
    return logits.requires_grad_(), z, x, t


def cross_entropy(logits: Tensor, x: Tensor) -> Tensor:
    """MDLM's: the mask is forbidden."""
    banned = torch.arange(V) == MASK
    return F.cross_entropy(logits.masked_fill(banned, -torch.inf), x, reduction="none")


def agree(ours: Tensor, right: Tensor, logits: Tensor) -> None:
    """Values and gradients to 1e-9 in fp64."""
    assert torch.allclose(ours, right, rtol=1e-9, atol=1e-9)
    pair = [torch.autograd.grad(v.sum(), logits, retain_graph=True)[0] for v in (ours, right)]
    assert torch.allclose(*pair, rtol=1e-9, atol=1e-9)


def test_sedd_with_a_normalised_head_is_mdlm():
    logits, _, x, _ = given()
    free = logits[:, REAL].logsumexp(dim=1, keepdim=True)
    agree(masked_entropy(logits - free + math.log(N), x, MASK), cross_entropy(logits, x), logits)


def test_a_free_normaliser_never_costs_less_than_a_right_one():
    logits, _, x, _ = given()
    shift = torch.linspace(-2, 2, 9, dtype=torch.float64)
    free = logits[:, REAL].logsumexp(dim=1, keepdim=True)
    costs = [masked_entropy(logits - free + math.log(N) + s, x, MASK) for s in shift]
    assert (torch.stack(costs) >= cross_entropy(logits, x) - 1e-12).all()


def test_d3pm_with_the_mask_forbidden_is_mdlms_discrete_bound():
    logits, _, x, t = given()
    banned = logits.masked_fill(torch.arange(V) == MASK, -torch.inf)
    ours = step_divergence(banned, x, 1 - t, 1 - t + t * 0.3, MASK)
    agree(ours, cross_entropy(logits, x), logits)


def test_gidd_without_uniform_noise_is_mdlm():
    logits, _, x, t = given()
    kernel = Mixture(LogLinear(), MASK, V, share=0.0)
    z, at = torch.full_like(x, MASK), kernel.shares(t)
    cost = divergence(logits, z, x, at.alpha, at.each, MASK, kernel.uniform)
    agree(kernel.weight(z, x, t) * cost, cross_entropy(logits, x) / t, logits)


def test_a_little_uniform_noise_is_nearly_none():
    logits, _, x, t = given()
    z = torch.full_like(x, MASK)
    costs = []
    for share in (0.0, 1e-12):
        kernel = Mixture(LogLinear(), MASK, V, share)
        at = kernel.shares(t)
        cost = divergence(logits, z, x, at.alpha, at.each, MASK, kernel.uniform)
        costs.append(kernel.weight(z, x, t) * cost)
    assert torch.allclose(*costs, rtol=1e-6)


def published_udlm(logits: Tensor, z: Tensor, x: Tensor, alpha: Tensor, dalpha: Tensor) -> Tensor:
    """UDLM's formula as printed, over the N real tokens."""
    place = torch.full((V,), -1).scatter(0, torch.tensor(REAL), torch.arange(N))
    p, i = logits[:, REAL].softmax(dim=1), place[z][:, None]
    bar = N * alpha[:, None] * F.one_hot(place[x], N) + 1 - alpha[:, None]
    bar_p = N * alpha[:, None] * p + 1 - alpha[:, None]
    own, own_p = bar.gather(1, i), bar_p.gather(1, i)
    total = (bar / own * (own_p * bar / (bar_p * own)).log()).sum(dim=1, keepdim=True)
    return dalpha / (N * alpha) * (N / own - N / own_p - total).squeeze(1)


@pytest.mark.parametrize("name", ["log-linear", "cosine"])
def test_the_uniform_kernel_is_udlms_formula(name):
    logits, z, x, t = given()
    z = torch.where(z == MASK, x, z)
    kernel = Uniform(make_schedule(name), MASK, V)
    at = kernel.shares(t)
    cost = divergence(logits, z, x, at.alpha, at.each, MASK, uniform=True)
    right = published_udlm(logits, z, x, at.alpha, at.dalpha)
    agree(kernel.weight(z, x, t) * cost, right, logits)


def test_score_entropy_of_uniform_noise_is_its_definition():
    logits, z, x, t = given()
    z = torch.where(z == MASK, x, z)
    at = Uniform(Geometric(), MASK, V).shares(t)
    ours = uniform_entropy(logits, z, x, at.each / (at.alpha + at.each), MASK)
    right = []
    for n in range(len(x)):
        q = [float(at.each[n] + at.alpha[n] * (y == x[n])) for y in range(V)]
        cost = torch.zeros((), dtype=torch.float64)
        for y in REAL:
            if y != z[n]:
                rho = q[y] / q[z[n]]
                s = logits[n, y]
                cost = cost + (s.exp() - rho * s + rho * (math.log(rho) - 1)) / N
        right.append(cost)
    agree(ours, torch.stack(right), logits)


def test_the_right_score_costs_nothing():
    _, z, x, t = given()
    z = torch.where(z == MASK, x, z)
    at = Uniform(Geometric(), MASK, V).shares(t)
    q = at.each[:, None] + at.alpha[:, None] * F.one_hot(x, V)
    score = torch.log(q / q.gather(1, z[:, None]))
    assert uniform_entropy(score, z, x, at.each / (at.alpha + at.each), MASK).abs().max() < 1e-9


KERNELS = ["mask", "uniform", "mixture:0.1", "mixture:0.5", "mixture:0"]
SCHEDULES = ["log-linear", "cosine", "geometric"]


@pytest.mark.parametrize("spec", KERNELS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shares_add_up_and_their_derivatives_are_derivatives(spec, schedule):
    kernel = make_kernel(spec, make_schedule(schedule), MASK, V)
    t = torch.linspace(0.01, 0.99, 21, dtype=torch.float64)
    at, step = kernel.shares(t), 1e-6
    assert torch.allclose(at.alpha + at.hidden + N * at.each, torch.ones_like(t), rtol=1e-12)
    later, before = kernel.shares(t + step), kernel.shares(t - step)
    for name in ("alpha", "hidden", "each"):
        slope = (getattr(later, name) - getattr(before, name)) / (2 * step)
        assert torch.allclose(getattr(at, f"d{name}"), slope, rtol=1e-5, atol=1e-7)


def bayes(kernel: Kernel, p: Tensor, z: int, t: Tensor, s: Tensor) -> Tensor:
    """q(z_s | z_t, p) by listing every pair."""
    one = torch.eye(V, dtype=torch.float64)
    now, then = kernel.shares(t), kernel.shares(s)
    keep = now.alpha / then.alpha
    chance = torch.zeros(V, dtype=torch.float64)
    for y in range(V):  # y at s, z at t
        noise = kernel.noise_at(torch.tensor(z), now)[0]
        noise = noise - keep * kernel.noise_at(torch.tensor(z), then)[0]
        chance[y] = (keep * (y == z) + noise) * (kernel.marginal(one, s.expand(V)).T @ p)[y]
    return chance / chance.sum()


@pytest.mark.parametrize("spec", KERNELS)
def test_the_step_back_is_bayes_rule_and_keeps_the_marginals(spec):
    kernel = make_kernel(spec, LogLinear(), MASK, V)
    t, s = torch.tensor([0.7, 0.4], dtype=torch.float64)
    p = torch.tensor([[0.1, 0.2, 0.0, 0.3, 0.15, 0.25]], dtype=torch.float64)
    q_t, q_s = kernel.marginal(p, t)[0], kernel.marginal(p, s)[0]
    back = torch.zeros(V, dtype=torch.float64)
    for z in range(V):
        step = kernel.posterior(p, torch.tensor([z]), t, s)[0]
        if q_t[z] > 0:
            assert torch.allclose(step, bayes(kernel, p[0], z, t, s), atol=1e-12)
            back += q_t[z] * step
    assert torch.allclose(back, q_s, atol=1e-12)


@pytest.mark.parametrize("spec", KERNELS)
def test_draws_follow_the_marginal(spec):
    from scipy.stats import chisquare

    from adlm.types import Noise

    kernel, count = make_kernel(spec, LogLinear(), MASK, V), 40_000
    x = torch.full((1, count), 4)
    u, token = torch.rand(2, 1, count, generator=torch.Generator().manual_seed(0))
    z = kernel.draw(x, x == 4, Noise(torch.tensor([0.6]), u, token=token))
    q = kernel.marginal(F.one_hot(torch.tensor(4), V).double(), torch.tensor(0.6).double())
    seen = torch.bincount(z[0], minlength=V)
    assert seen[q == 0].sum() == 0
    some = q > 0
    assert chisquare(seen[some].numpy(), (q[some] * count).numpy()).pvalue > 1e-3
    still = kernel.draw(x, x != 4, Noise(torch.tensor([0.6]), u, token=token))
    assert torch.equal(still, x)


def test_masks_alone_have_mdlms_weight():
    t = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    x, z = torch.zeros(5, dtype=torch.long), torch.full((5,), MASK)
    kernel = Mask(LogLinear(), MASK, V)
    assert torch.allclose(kernel.weight(z, x, t) * kernel.shares(t).alpha, 1 / t)
    assert kernel.weight(x, x, t).abs().max() == 0


def test_d3pms_step_is_the_divergence_of_the_published_posterior():
    """By its definition, with the mask predictable: from the transitions themselves."""
    logits, _, x, t = given()
    alpha_t, alpha_s = 1 - t, 1 - 0.7 * t
    p = logits.softmax(dim=1)
    p_m = p[:, MASK]
    rho = (alpha_s - alpha_t) / (1 - alpha_t)
    step = (alpha_s - alpha_t)[:, None] * p  # to each real token,
    stays = (1 - alpha_s) * (1 - p_m) + p_m  # or to the mask
    step = torch.where(torch.arange(V) == MASK, stays[:, None], step)
    step = step / step.sum(dim=1, keepdim=True)
    chosen = step.gather(1, x[:, None]).squeeze(1)
    right = rho * (rho / chosen).log() + (1 - rho) * ((1 - rho) / step[:, MASK]).log()
    agree(step_divergence(logits, x, alpha_t, alpha_s, MASK), right / rho, logits)


def test_a_mixture_tells_the_network_the_time_itself():
    t = torch.linspace(0, 1, 5, dtype=torch.float64)
    kernel = Mixture(LogLinear(), MASK, V)
    assert torch.allclose(kernel.level(LogLinear().alpha(t)), t)


def test_gidds_weights_of_training_are_the_bounds_times_two_t_and_one_minus_t():
    """To first order in c / N, at tokens of all kinds; at clean ones no more than at masks."""
    kernel = Mixture(LogLinear(), mask=49_999, size=50_000, share=0.2)
    t = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    x, mask = torch.zeros(99, dtype=torch.long), torch.full((99,), 49_999)
    for z, right in ((mask, 2.0), (x + 1, 1.0), (x, None)):
        weight = dynamic(kernel, z, x, t)
        assert torch.allclose(weight, 2 * t * (1 - t) * kernel.weight(z, x, t), rtol=1e-3)
        assert right is None or (weight == right).all()
    clean = dynamic(kernel, x, x, t)
    assert (clean.diff() > 0).all(), "what stands late is likely to be noise"
    small = Mixture(LogLinear(), MASK, V, share=0.5)
    late = torch.tensor([1 - 1e-9], dtype=torch.float64)
    assert dynamic(small, x[:1], x[:1], late).item() == 2.0
