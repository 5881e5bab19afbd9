"""Samplers of order-aware masking against the exact distribution of its reverse process."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from adlm.config import ProcessConfig
from adlm.process.order import OrderedMask
from adlm.process.schedule import LogLinear
from adlm.samplers.base import Canvas, make_policy, run
from adlm.samplers.categorical import Draw
from adlm.samplers.choice import samplers_for, usual
from adlm.samplers.random import RowRandom
from tests.objectives.test_order import FORMS, Listed, config, timeless
from tests.objectives.tiny import MASK, REAL, STATES, L, V

ROWS, STEPS = 12_000, 3


def canvas_of(process: ProcessConfig, rows: int = ROWS) -> tuple[Canvas, Listed]:
    model = timeless(1)
    listed = Listed(process, model)
    kernel = OrderedMask(LogLinear(), MASK, V, listed.k, process.tilt)
    z = torch.full((rows, L), MASK)
    free = torch.zeros_like(z, dtype=torch.bool)
    random = RowRandom(0, range(rows))
    return Canvas(z, free, MASK, model, Draw(), random, noise=kernel), listed


def in_steps(listed: Listed) -> Tensor:
    """(S,) by every step's posterior: a token v has become visible since t with 1 - (s / t)^k."""
    p = (STATES == MASK).all(dim=1).double()
    for i in range(STEPS, 0, -1):
        t, s = i / STEPS, (i - 1) / STEPS
        step = listed.mu(t) * (1 - torch.tensor(s / t).double() ** listed.k)  # (S, L, V)
        step[..., MASK] = 1 - step.sum(dim=-1)
        stay = torch.eye(V).double()[STATES]
        step = torch.where((STATES == MASK)[..., None], step, stay)
        p = p @ torch.einsum("ka,kb->kab", step[:, 0], step[:, 1]).flatten(1)
    return p


def matches(z: Tensor, wanted: Tensor) -> bool:
    seen = torch.bincount(z[:, 0] * V + z[:, 1], minlength=len(STATES))
    some = wanted > 1e-9
    assert seen[~some].sum() == 0
    expected = wanted[some] / wanted[some].sum() * len(z)
    return chisquare(seen[some].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("form", ["order 1", "order -1", "tilt 1", "tilt -2"])
def test_ancestral_steps_are_the_posterior_s(form):
    canvas, listed = canvas_of(FORMS[form])
    run(canvas, make_policy("order-ancestral", LogLinear()), STEPS)
    wanted = in_steps(listed)
    assert wanted[(STATES == MASK).any(dim=1)].sum() == pytest.approx(0.0, abs=1e-12)
    assert matches(canvas.z, wanted)


@pytest.mark.parametrize("form", ["order 1", "order -1"])
def test_hitting_is_the_continuous_process_and_plain_order_is_not(form):
    canvas, listed = canvas_of(FORMS[form])
    run(canvas, make_policy("order-hitting", LogLinear()), 1)
    assert (canvas.nfe == L).all()
    wanted = listed.outcome()
    assert matches(canvas.z, wanted)
    even, _ = canvas_of(FORMS[form])
    even.kernel.exponents = torch.ones(V).double()
    run(even, make_policy("order-hitting", LogLinear()), 1)
    assert not matches(even.z, wanted)


def test_which_samplers_serve():
    assert usual(config(FORMS["order 1"])) == "order-ancestral"
    assert samplers_for(config(FORMS["order 1"])) == [
        "confidence", "order-ancestral", "order-hitting"
    ]  # fmt: skip
    assert "order-hitting" not in samplers_for(config(FORMS["tilt 1"]))


@pytest.mark.parametrize("sampler", ["order-ancestral", "order-hitting"])
def test_frozen_positions_stay_and_rows_do_not_depend_on_others(sampler):
    found = []
    for rows in (3, 40):
        canvas, _ = canvas_of(FORMS["order -1"], rows)
        canvas.z[:, 0] = torch.tensor(list(itertools.islice(itertools.cycle(REAL), rows)))
        canvas.frozen[:, 0] = True
        given = canvas.z[:, 0].clone()
        run(canvas, make_policy(sampler, LogLinear()), STEPS)
        assert torch.equal(canvas.z[:, 0], given)
        assert (canvas.z != MASK).all()
        found.append(canvas.z[:3])
    assert torch.equal(*found)
