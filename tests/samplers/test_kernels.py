"""Samplers of the baselines against the exact distribution of their reverse processes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import chisquare
from torch import Tensor

from adlm.objectives.base import make_objective
from adlm.process.score import masked_step, uniform_analytic
from adlm.registry import lookup
from adlm.samplers.base import Canvas, make_policy, run
from adlm.samplers.categorical import Draw
from adlm.samplers.choice import samplers_for
from adlm.samplers.random import RowRandom
from tests.objectives.tiny import MASK, REAL, STATES, VOCAB, L, Listed, V, config, network

STEPS, ROWS = 3, 12_000


def canvas_of(name: str, rows: int, seed: int = 0) -> Canvas:
    """A canvas of `generate`'s making, on a tiny network."""
    z = torch.full((rows, L), MASK)
    return Canvas(
        z,
        torch.zeros_like(z, dtype=torch.bool),
        MASK,
        network(name),
        Draw(),
        RowRandom(seed, range(rows)),
        noise=Listed(name, network(name)).kernel,
        conditioned=True,
        reads=lookup("objective", config(name).objective).reads,
    )


def bayes(listed: Listed, t: float, s: float) -> Tensor:
    """(S, L, V) q(z_s | z_t, p) by Bayes' rule over every z_s."""
    p = listed.predicted(t, forbid=listed.name != "d3pm")
    now, then = (listed.kernel.shares(torch.tensor(a, dtype=torch.float64)) for a in (t, s))
    keep = now.alpha / then.alpha
    noise_t, noise_s = (torch.full((V,), float(at.each)).double() for at in (now, then))
    noise_t[MASK], noise_s[MASK] = now.hidden, then.hidden
    forward = keep * torch.eye(V).double() + (noise_t - keep * noise_s)  # (z_s, z_t)
    joint = listed.marginal(p, s) * forward.T[STATES]  # (S, L, V)
    return joint / joint.sum(dim=-1, keepdim=True).clamp(min=1e-300)


def by_scores(listed: Listed, t: float, s: float, euler: bool) -> Tensor:
    """(S, L, V) SEDD's step by the noise's rate matrix and its exponential."""
    schedule = listed.kernel.schedule
    moments = torch.tensor([max(t, 1e-9), s], dtype=torch.float64).clamp(max=1 - 1e-12)
    alpha = schedule.alpha(moments)
    score = listed.ratios(float(moments[0])).scatter(2, STATES[..., None], 1.0)
    rates = torch.zeros(V, V, dtype=torch.float64)  # from, to
    if listed.kernel.uniform:
        rates[np.ix_(REAL, REAL)] = 1 / (V - 1)
    else:
        rates[:, MASK] = 1.0
    rates -= torch.diag(rates.sum(dim=1))
    if euler and s > 0:
        speed = float(-schedule.dalpha(moments[0]) / alpha[0]) * (t - s)
        step = (speed * rates[:, STATES].permute(1, 2, 0) * score).scatter(
            2, STATES[..., None], 0.0
        )
        rest = (1 - step.sum(dim=-1, keepdim=True)).clamp(min=0.0)
        step = step.scatter(2, STATES[..., None], rest)
    else:
        d = float(torch.log(alpha[1] / alpha[0]))
        there, back = torch.matrix_exp(d * rates), torch.matrix_exp(-d * rates)
        step = (score @ back * there[:, STATES].permute(1, 2, 0)).clamp(min=0.0)
    if s == 0 or listed.kernel.uniform:
        step[..., MASK] = 0.0
    stay = F.one_hot(STATES, V).double()
    if not listed.kernel.uniform:
        step = torch.where((STATES == MASK)[..., None], step, stay)
    return step / step.sum(dim=-1, keepdim=True).clamp(min=1e-300)


def joint(step: Tensor) -> Tensor:
    """(S, L, V) independent positions -> (S, S) between states."""
    return torch.einsum("ka,kb->kab", step[:, 0], step[:, 1]).flatten(1)


def corrected(listed: Listed, level: float, temperature: float) -> Tensor:
    """(S, S) one step of self-correction, by listing every proposal."""
    logits = listed.logits(level) / temperature
    logits[..., MASK] = -torch.inf
    p = logits.softmax(dim=-1)
    moves = torch.zeros(len(STATES), len(STATES), dtype=torch.float64)
    for k, z in enumerate(STATES.tolist()):
        for made in itertools.product(REAL, repeat=L):
            chance = float(p[k, 0, made[0]] * p[k, 1, made[1]])
            sure = [float(p[k, i, made[i]]) if made[i] != z[i] else -1.0 for i in range(L)]
            alike = [i for i in range(L) if sure[i] > max(sure) - 1e-6]  # the chance is even then
            for best in alike:
                new = list(z)
                if sure[best] >= 0:
                    new[best] = made[best]
                moves[k, new[0] * V + new[1]] += chance / len(alike)
    return moves


def exact(name: str, sampler: str) -> Tensor:
    """(S,) distribution of the texts."""
    listed = Listed(name, network(name))
    p = listed.start()
    for i in range(STEPS, 0, -1):
        t, s = i / STEPS, (i - 1) / STEPS
        if sampler in ("analytic", "euler"):
            step = by_scores(listed, t, s, sampler == "euler")
        else:
            step = bayes(listed, t, s)
            if not listed.kernel.uniform:  # what is written stays
                stay = F.one_hot(STATES, V).double()
                step = torch.where((STATES == MASK)[..., None], step, stay)
        p = p @ joint(step)
    if name == "d3pm":
        p = p @ joint(listed.predicted(0.0))
    if sampler == "self-correct":
        p = p @ corrected(listed, 0.01, 0.5)
    return p


CASES = [
    ("mdlm", "ancestral", {}),
    ("udlm", "posterior", {}),
    ("gidd", "posterior", {}),
    ("d3pm", "posterior", {}),
    ("udlm", "self-correct", {"corrections": 1, "temperature": 0.5}),
    ("gidd", "self-correct", {"corrections": 1, "temperature": 0.5}),
    ("sedd", "analytic", {}),
    ("sedd", "euler", {}),
    ("sedd-uniform", "analytic", {}),
    ("sedd-uniform", "euler", {}),
]


@pytest.mark.parametrize(("name", "sampler", "options"), CASES)
def test_texts_follow_the_exact_distribution_of_the_reverse_process(name, sampler, options):
    canvas = canvas_of(name, ROWS)
    run(canvas, make_policy(sampler, canvas.kernel.schedule, options), STEPS)
    assert (canvas.z != MASK).all()
    wanted = exact(name, sampler)
    assert wanted.sum() == pytest.approx(1.0, abs=1e-9)
    seen = torch.bincount(canvas.z[:, 0] * V + canvas.z[:, 1], minlength=len(STATES))
    some = wanted > 1e-12
    assert seen[~some].sum() == 0
    assert chisquare(seen[some].numpy(), (wanted[some] * ROWS).numpy()).pvalue > 1e-3


@pytest.mark.parametrize(("name", "sampler", "options"), CASES)
def test_frozen_positions_are_never_touched(name, sampler, options):
    canvas = canvas_of(name, 200)
    canvas.z[:, 0] = torch.tensor(REAL)[torch.arange(200) % 3]
    canvas.frozen[:, 0] = True
    given = canvas.z[:, 0].clone()

    def watch(number: int, canvas: Canvas) -> None:
        assert torch.equal(canvas.z[:, 0], given)

    run(canvas, make_policy(sampler, canvas.kernel.schedule, options), STEPS, watch)
    assert (canvas.z[:, 1] != MASK).all()


def test_rows_do_not_depend_on_the_rows_beside_them():
    for name, sampler, options in CASES:
        found = []
        for rows in (3, 40):
            canvas = canvas_of(name, rows)
            run(canvas, make_policy(sampler, canvas.kernel.schedule, options), STEPS)
            found.append(canvas.z[:3])
        assert torch.equal(*found), name


def test_a_network_is_told_the_noise_level_of_each_step():
    canvas = canvas_of("udlm", 2)
    told: list[float] = []
    plain = canvas.sigma

    def sigma(rows: Tensor) -> Tensor | None:
        told.append(float(plain(rows)[0]))
        return plain(rows)

    canvas.sigma = sigma
    run(canvas, make_policy("posterior", canvas.kernel.schedule), 4)
    alpha = [max(1 - t, 1e-4) for t in (1.0, 0.75, 0.5, 0.25)]
    assert told == pytest.approx([-np.log(a) for a in alpha], rel=1e-6)


def test_each_objective_offers_the_samplers_that_can_write_with_it():
    assert samplers_for(config("udlm")) == ["posterior", "self-correct"]
    assert samplers_for(config("gidd")) == ["posterior", "self-correct"]
    assert samplers_for(config("d3pm")) == ["posterior"]
    assert samplers_for(config("sedd")) == ["analytic", "euler"]
    assert "ancestral" in samplers_for(config("mdlm"))
    assert not {"posterior", "analytic"} & set(samplers_for(config("mdlm")))
    for name in ("udlm", "gidd", "d3pm", "sedd", "sedd-uniform"):
        make_objective(config(name), VOCAB)


def test_scores_that_add_up_to_more_than_a_step_leave_no_mask():
    step = masked_step(torch.tensor([[3.0, 1.0, 0.0]]), 0.5, mask=2)
    assert step.tolist() == [[0.75, 0.25, 0.0]]


def test_steps_by_scores_that_do_not_fit_together_have_no_negative_chance():
    generator = torch.Generator().manual_seed(0)
    score = torch.exp(4 * torch.randn(200, 6, generator=generator, dtype=torch.float64))
    z = torch.randint(0, 5, (200,), generator=generator)
    step = uniform_analytic(score, z, 0.3, mask=5)
    assert (step >= 0).all()
    assert torch.allclose(step.sum(dim=1), torch.ones(200, dtype=torch.float64))
