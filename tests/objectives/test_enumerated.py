"""Bounds and samplers of the baselines against lists of everything, on random networks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.objectives import sedd
from adlm.objectives.base import make_objective
from adlm.objectives.kernels import KernelDiffusion
from adlm.objectives.likelihood import evaluator
from adlm.objectives.sedd import masked_entropy
from adlm.process.kernel import times
from adlm.types import Batch, Noise
from tests.objectives.tiny import (
    MASK,
    SHORT,
    STATES,
    TEXTS,
    VOCAB,
    Listed,
    V,
    config,
    integral,
    network,
    nodes,
    number,
    outcome,
)

CONTINUOUS = ["mdlm", "sedd", "sedd-uniform", "udlm", "gidd", *SHORT]
MOSTLY_NOISE = ["gidd-0.9", "gidd-0.99"]
DRAWS = 40_000


def estimated(name: str, model, x: Tensor, seed: int = 0) -> tuple[float, float]:
    """The bound of one text by Monte-Carlo, with its standard error (times in strata)."""
    generator = torch.Generator().manual_seed(seed)
    t = (torch.arange(DRAWS) + 1 - torch.rand(DRAWS, generator=generator)) / DRAWS
    u, token = torch.rand(2, DRAWS, len(x), generator=generator)
    rows = x.expand(DRAWS, -1)
    objective = evaluator(config(name), VOCAB)
    assert objective.bound
    batch = Batch(rows, torch.ones_like(rows, dtype=torch.bool))
    with torch.no_grad():
        found = objective.score(model, batch, Noise(t.double(), u, token=token)).rows.numpy()
    pairs = found.reshape(-1, 2)  # neighbours in time
    return found.mean(), float(np.sqrt(((pairs[:, 0] - pairs[:, 1]) ** 2).sum() / DRAWS**2))


def expected(name: str, model, x: Tensor) -> float:
    """The objective's own bound of one text: at every node in time each z by its chance."""
    objective, (v, weight) = evaluator(config(name), VOCAB), nodes()
    t = objective.clock(times(v))[0] if isinstance(objective, KernelDiffusion) else v
    at = Listed(name, model).kernel.shares(t)
    noise = [(at.each, (at.hidden + 1 - at.alpha) / 2, (k + 0.5) / (V - 1)) for k in range(V - 1)]
    ways = [(at.hidden, at.hidden / 2, 0.0), *noise, (at.alpha, 1 - at.alpha / 2, 0.0)]
    rows = x.expand(len(v), -1)
    batch, total = Batch(rows, torch.ones_like(rows, dtype=torch.bool)), 0.0
    for pair in itertools.product(ways, repeat=2):
        chance, u, token = zip(*pair, strict=True)
        tokens = torch.tensor(token).expand(len(v), -1)
        with torch.no_grad():
            found = objective.score(model, batch, Noise(v, torch.stack(u, dim=1), token=tokens))
        total += float((weight * chance[0] * chance[1] * found.rows).sum())
    return total


@pytest.mark.parametrize("name", [*CONTINUOUS, *MOSTLY_NOISE])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_meets_its_definition_and_is_no_less_than_minus_log_p(name, seed):
    model = network(name, seed)
    listed = Listed(name, model)
    p = outcome(listed)
    assert p[(STATES != MASK).all(dim=1)].sum() == pytest.approx(1.0, abs=1e-4)
    for x in TEXTS[[0, 5]]:
        exact = integral(lambda t, x=x: listed.cost(x, t)) + listed.prior(x)
        within = 1e-3 if name in MOSTLY_NOISE else 1e-5  # noise before the first time is left out
        assert expected(name, model, x) == pytest.approx(exact, rel=within)
        assert exact >= -float(p[number(x)].log()) - 1e-4


@pytest.mark.parametrize("name", CONTINUOUS)
def test_what_is_drawn_averages_to_the_bound(name):
    model, x = network(name), TEXTS[5]
    exact = expected(name, model, x)
    mean, error = estimated(name, model, x)
    assert abs(mean - exact) < 3 * error + 1e-4 * exact
    assert error < 0.05 * exact


def step_of(p: Tensor, z: int, alpha_t: float, alpha_s: float) -> Tensor:
    """(V,) q(z_s | z_t = z, p) with masks, by listing z_s."""
    one, keep = torch.eye(V, dtype=torch.float64)[MASK], alpha_t / alpha_s
    earlier = alpha_s * p + (1 - alpha_s) * one
    arrive = torch.tensor([keep * (y == z) + (1 - keep) * (z == MASK) for y in range(V)])
    joint = earlier * arrive
    return joint / joint.sum().clamp(min=1e-300)  # 0 where z cannot be at t


def d3pm_listed(model, x: Tensor, steps: int = 4) -> tuple[float, float]:
    """(bound, -log p) of D3PM by listing every z_t, every step and the last reading."""
    listed = Listed("d3pm", model)
    one, bound, chance = F.one_hot(x, V).double(), 0.0, listed.start()
    for i in range(steps, 0, -1):
        alpha_t, alpha_s = 1 - i / steps, 1 - (i - 1) / steps
        p = listed.predicted(i / steps, forbid=False)
        q = listed.marginal(one, i / steps)
        moves = torch.zeros(len(STATES), len(STATES), dtype=torch.float64)
        for k, z in enumerate(STATES.tolist()):
            model_step = [step_of(p[k, at], z[at], alpha_t, alpha_s) for at in range(2)]
            moves[k] = torch.outer(*model_step).flatten()
            weight = float(q[0, z[0]] * q[1, z[1]])
            if weight:
                for at in range(2):
                    true = step_of(one[at], z[at], alpha_t, alpha_s)
                    part = torch.special.xlogy(true, true) - torch.special.xlogy(
                        true, model_step[at]
                    )
                    bound += weight * float(part.sum())
        chance = chance @ moves
    reading = listed.predicted(0.0, forbid=False)  # (S, L, V)
    read = reading[:, 0, x[0]] * reading[:, 1, x[1]]  # (S,)
    bound -= float(read[number(x)].log())
    return bound, -float((chance * read).sum().log())


@pytest.mark.parametrize("seed", [0, 1])
def test_d3pms_bound_meets_its_definition_and_is_no_less_than_minus_log_p(seed):
    model = network("d3pm", seed)
    for x in TEXTS[[0, 5]]:
        exact, nll = d3pm_listed(model, x)
        mean, error = estimated("d3pm", model, x, seed)
        assert abs(mean - exact) < 3 * error + 1e-9
        assert error < 0.05 * exact
        assert exact >= nll


def normalised(logits: Tensor) -> Tensor:
    """Scores f_y = p_y: SEDD's network tells log f + log N."""
    banned = logits.masked_fill(torch.arange(V) == MASK, -torch.inf)
    return banned.log_softmax(dim=1) + np.log(V - 1)


@pytest.mark.parametrize("objective", ["gidd", "d3pm", "sedd"])
def test_an_objective_that_should_be_mdlm_is_mdlm_in_values_and_gradients(objective, monkeypatch):
    def cost(logits: Tensor, x: Tensor, mask: int) -> Tensor:
        return masked_entropy(normalised(logits), x, mask)

    monkeypatch.setattr(sedd, "masked_entropy", cost)
    torch.manual_seed(0)
    x = TEXTS[torch.randint(0, len(TEXTS), (64,))]
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    t = torch.rand(64, dtype=torch.float64)
    noise = Noise(t, torch.rand(64, 2), token=torch.rand(64, 2))
    steps = 4 if objective == "d3pm" else 0
    found = []
    for name in (objective, "mdlm"):
        base = config("mdlm")
        kernel = "mixture:0" if name == "gidd" else "mask"
        timed = objective == "sedd"  # SEDD's network sees the noise level
        process = replace(base.process, kernel=kernel, steps=steps, conditioned=timed)
        made = make_objective(replace(base, objective=name, process=process), VOCAB)
        model = network("mdlm", 3)
        with torch.no_grad():
            model.head.bias[MASK] = -1e3  # D3PM: the mask is not predicted
        score = made.score(model, batch, noise)
        bound = score.bound
        if objective == "d3pm" and name == "d3pm":
            bound = bound - made.aside(model, batch)[0]  # MDLM reads nothing
        found.append(
            (bound, torch.autograd.grad(bound, list(model.parameters()), allow_unused=True))
        )
    (ours, ours_d), (right, right_d) = found
    assert ours.item() == pytest.approx(right.item(), rel=1e-9)
    for a, b in itertools.zip_longest(ours_d, right_d):
        if b is not None:
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)
