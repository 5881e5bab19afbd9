"""Remasking keeps the marginals of its schedule."""

from __future__ import annotations

import math

import pytest
import torch

from adlm.process.schedule import make_schedule
from adlm.samplers.base import Canvas, Policy, clock, make_policy, run
from adlm.theory.enumerate import MASK, TabularPair, distribution
from tests.samplers.tables import (
    LIMITS,
    REMASKING,
    Network,
    canvas,
    chi_square,
    followed,
)


@pytest.mark.parametrize("steps", [1, 3, 7, 40])
@pytest.mark.parametrize("schedule", ["log-linear", "cosine", "polynomial:3"])
@pytest.mark.parametrize("sampler", REMASKING)
def test_every_remasking_rule_keeps_the_marginal_of_its_schedule(sampler, schedule, steps):
    """P(visible at s) = (1 - sigma) P(visible at t) + unmask P(masked at t) = alpha_s, exactly."""
    policy = make_policy(sampler, make_schedule(schedule))
    visible = 0.0
    for t, s in policy.times(canvas(Network(TabularPair.random(2, 0)), 1, 2), steps):
        move = policy.move(t, s, length=2)
        alpha_s = move.alpha_s.item()
        sigma = move.cut(policy.sigma(move)).item()
        assert 0 <= sigma <= 1
        unmask = move.unmask(sigma).item()
        assert 0 <= unmask <= 1 + 1e-12
        visible = (1 - sigma) * visible + unmask * (1 - visible)
        assert visible == pytest.approx(alpha_s, abs=1e-12)
    assert visible == 1


@pytest.mark.parametrize("sampler", REMASKING)
def test_the_number_of_masks_in_a_real_run_is_binomial_at_every_step(sampler):
    length, rows, steps = 3, 4000, 8
    policy = make_policy(sampler, make_schedule("log-linear"))
    alphas = [policy.alphas(t, s)[1] for t, s in clock(steps)]

    def look(number: int, made: Canvas) -> None:
        if 0 < number < steps:
            alpha = alphas[number - 1]
            seen = torch.bincount((made.z == MASK).sum(dim=1), minlength=length + 1)
            exact = [
                rows * math.comb(length, k) * (1 - alpha) ** k * alpha ** (length - k)
                for k in range(length + 1)
            ]
            chi = sum((a - b) ** 2 / b for a, b in zip(seen.tolist(), exact, strict=True))
            assert chi < 21.1, (
                sampler,
                number,
            )  # 3 degrees of freedom, p = 0.0001: 56 are looked at

    made = canvas(Network(TabularPair.random(length, 4)), rows, length, seed=11)
    run(made, policy, steps, look)
    assert not made.open.any()


def masked_shares(made: Canvas, policy: Policy, steps: int) -> list[float]:
    found: list[float] = []
    run(made, policy, steps, lambda n, c: found.append(float((c.z == MASK).double().mean())))
    return found


def test_the_published_conf_rule_leaves_more_masked_than_its_schedule_says():
    shares = {}
    for published in (False, True):
        policy = make_policy("remdm-conf", make_schedule("log-linear"), {"published": published})
        made = canvas(Network(TabularPair.random(3, 4)), 20_000, 3)
        shares[published] = masked_shares(made, policy, 8)[4]
    assert shares[False] == pytest.approx(0.5, abs=0.01)
    assert shares[True] > 0.55


def share_of_most(t: float, s: float) -> float:
    """sigma = 0.4 sigma_max."""
    return 0.4 * min(1.0, s / (1 - t)) if t < 1 else 0.4


LOOP = {"eta": 0.1, "t_on": 0.55, "t_off": 0.15, "alpha_on": 0.8}


@pytest.mark.parametrize(
    ("sampler", "options", "sigma"),
    [
        ("remdm-rescale", {"eta": 0.4}, share_of_most),
        ("remdm-switch", {"eta": 0.3, "t_switch": 0.5}, lambda t, s: 0.3 * (t <= 0.5)),
        ("forward-backward", {}, lambda t, s: (t - s) / (1 - t) if t < 1 else 0.0),
        (
            "dfm",
            {"strength": 2.0},
            lambda t, s: 2 * (t * (1 - t)) ** 0.25 * (t - s) / (1 - t) if t < 1 else 0.0,
        ),
    ],
)
def test_every_rule_samples_the_distribution_of_its_paths(sampler, options, sigma):
    """Eight steps of alpha = 1 - t, sigma as published, all paths followed."""
    table, count = TabularPair.random(2, seed=5), 8
    times = [(i / count, (i - 1) / count) for i in range(count, 0, -1)]
    exact = followed(table, [(1 - t, 1 - s, sigma(t, s)) for t, s in times])
    assert sum(exact.values()) == pytest.approx(1.0)
    made = canvas(Network(table), 20_000, 2)
    run(made, make_policy(sampler, make_schedule("log-linear"), options), count)
    assert chi_square(made.z, exact) < LIMITS[3]


def test_the_loop_samples_the_distribution_of_its_paths():
    """Up to 0.8 visible until t = 0.55, a tenth taken back at that level until 0.15, then the rest.

    Its clock has a step that ends at each of the two times.
    """
    table, policy = (
        TabularPair.random(2, seed=6),
        make_policy("remdm-loop", make_schedule("log-linear"), LOOP),
    )
    made = canvas(Network(table), 20_000, 2)
    moves = []
    for t, s in policy.times(made, 20):
        alpha_t, alpha_s = (
            0.8 * (1 - u) / 0.45 if u > 0.55 else 0.8 if u > 0.15 else 1 - u * 0.2 / 0.15
            for u in (t, s)
        )
        moves.append((alpha_t, alpha_s, 0.1 * (t <= 0.55 and s >= 0.15)))
    run(made, policy, 20)
    assert any(sigma for *_, sigma in moves)
    assert chi_square(made.z, followed(table, moves)) < LIMITS[3]


@pytest.mark.parametrize("eta", [0.1, 0.4])
def test_remasking_samples_the_enumerated_distribution(eta):
    table = TabularPair.random(2, seed=3)
    made = canvas(Network(table), 20_000, 2)
    run(made, make_policy("remdm-cap", make_schedule("log-linear"), {"eta": eta}), 5)
    exact = {x: p for x, p in distribution(table, 5, sigma=eta).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[3]


def test_remdm_loop_refines_at_a_constant_share():
    policy = make_policy("remdm-loop", make_schedule("log-linear"))
    assert policy.alphas(0.5, 0.4) == (0.9, 0.9)
    assert policy.alphas(1.0, 0.55) == (0.0, 0.9)
    assert policy.alphas(0.05, 0.0) == pytest.approx((0.9, 1.0))
    assert policy.sigma(policy.move(0.5, 0.4, 64)) == 0.02
    assert policy.sigma(policy.move(0.9, 0.8, 64)) == 0.0


def test_the_loop_remasks_from_t_on_to_t_off_and_nowhere_else():
    policy = make_policy("remdm-loop", make_schedule("log-linear"))
    at = {(0.55, 0.05): 0.02, (0.5500001, 0.5): 0, (0.5, 0.0499999): 0, (0.06, 0.05): 0.02}
    for (t, s), sigma in at.items():
        assert policy.sigma(policy.move(t, s, length=2)) == sigma


def test_the_loop_s_clock_goes_to_its_plateau_and_on():
    policy = make_policy("remdm-loop", make_schedule("log-linear"))
    right = {1.0: 0.0, 0.775: 0.45, 0.55: 0.9, 0.3: 0.9, 0.05: 0.9, 0.025: 0.95, 0.0: 1.0}
    for t, alpha in right.items():
        assert policy.alpha(t) == pytest.approx(alpha)
        assert policy.alpha(torch.tensor(t)).item() == pytest.approx(alpha)


def test_rescaling_takes_a_share_of_the_most_that_keeps_the_marginal():
    policy = make_policy("remdm-rescale", make_schedule("log-linear"), {"eta": 0.5})
    move = policy.move(0.5, 0.4, 64)
    assert policy.sigma(move) == pytest.approx(0.5 * min(1.0, (1 - 0.6) / 0.5))
