"""The theory package against the library's own objectives and against closed forms."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from adlm.commands.theory import theory
from adlm.errors import UserError
from adlm.process.reverse import Transition
from adlm.theory.complexity import MODELS, curves, fit, loss, parameters, truth
from adlm.theory.em import em_curve
from adlm.theory.enumerate import TabularPair, bound, distribution, steps
from adlm.theory.example import transitions
from adlm.theory.networks import make


def test_the_worked_example():
    assert transitions()[0].unmask == pytest.approx(Transition.of(1 / 3, 2 / 3).unmask().item())
    assert [round(t.probability, 12) for t in transitions()] == [0.1125, 0.125]


@pytest.mark.parametrize("sigma", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_sampler_ends_in_a_distribution_without_masks(count, sigma):
    chance = distribution(TabularPair.random(3, 0), count, sigma)
    assert math.isclose(sum(chance.values()), 1.0, rel_tol=1e-12)
    assert sum(p for z, p in chance.items() if 2 in z) < 1e-12
    assert all(0 <= s.sigma <= 1 and 0 <= s.unmask <= 1 + 1e-12 for s in steps(count, sigma))


def test_one_step_is_the_independent_product():
    table = TabularPair.random(3, 4)
    chance = distribution(table, 1)
    probabilities = np.exp(table.log_x[table.index((2, 2, 2))])
    for x, p in chance.items():
        if 2 not in x:
            assert math.isclose(p, math.prod(probabilities[i, v] for i, v in enumerate(x)))


def test_a_single_step_makes_the_bound_tight_and_more_steps_do_not():
    table, x = TabularPair.random(3, 1), (1, 0, 0)
    one = bound(table, x, {0}, 1, 0.0)
    assert math.isclose(one.nll, one.nelbo)
    more = bound(table, x, {0}, 4, 0.0)
    assert more.nelbo > more.nll + 1e-3


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_the_nelbo_is_above_the_nll_and_has_no_anchors_in_it(sigma):
    """What is left of Theorem 4.1: other anchors, or another anchor network, change nothing."""
    table, x = TabularPair.random(3, 5), (1, 0, 0)
    found = bound(table, x, {0}, 4, sigma)
    assert found.slack > 1e-3
    assert found.slack == bound(table, x, {0, 1, 2}, 4, sigma).slack
    other = bound(TabularPair(table.log_x, table.log_y - 1, 3), x, {0}, 4, sigma)
    assert other.slack == found.slack
    assert other.anchor > found.anchor


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_the_anchor_term_is_the_divergence_of_its_definition(sigma):
    found = bound(TabularPair.random(3, 2), (1, 0, 0), {0, 2}, 3, sigma)
    assert found.anchor > 0.1
    assert math.isclose(found.anchor, found.divergence, rel_tol=1e-12)


def test_a_file_in_place_of_the_folder_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match="is a file; it must be a folder"):
        theory(str(tmp_path / "file"))


def test_models_that_see_more_have_a_lower_floor():
    found = {c.model: c.floor for c in curves("line", length=5, repeats=1, samples=(30, 100, 300))}
    assert found["DLM"] < found["AR"]
    assert math.isclose(found["AR"], found["A2R"])
    assert found["ADLM"] == found["A2R"]


def test_fitted_tables_tend_to_the_truth_and_their_excess_to_parameters_over_two_n():
    """The classical limit for maximum likelihood: excess = (free parameters) / (2 N)."""
    network = make("line", 5, 2, seed=3)
    count = 200_000
    x = network.sample(count, np.random.default_rng(0))
    for model in MODELS:
        floor = loss(model, network, truth(model, network))
        excess = loss(model, network, fit(model, network, x)) - floor
        free = parameters(model, network) / 2  # K = 2: one free entry a row
        assert 0 < excess < 3 * free / (2 * count)


def test_anchored_tables_need_fewer_samples():
    found = {c.model: c for c in curves("line", length=6, repeats=2)}
    assert found["DLM"].needed > 3 * found["AR"].needed > 3 * found["A2R"].needed
    assert all(-1.3 < c.exponent < -0.6 for c in found.values())


def test_samples_follow_the_network():
    network = make("tree", 4, 2, seed=0)
    every = network.everything()
    x = network.sample(100_000, np.random.default_rng(0))
    codes = x @ (2 ** np.arange(4))
    observed = np.bincount(codes, minlength=16)
    expected = np.zeros(16)
    expected[every @ (2 ** np.arange(4))] = np.exp(network.log_p(every)) * len(x)
    assert ((observed - expected) ** 2 / expected).sum() < 37.7  # 15 degrees of freedom, p = 0.001


def test_em_never_raises_the_nll():
    curve = em_curve()
    assert all(b <= a + 1e-12 for a, b in pairwise(curve))
    assert curve[0] - curve[-1] > 1


def test_the_command_writes_tables_and_plots(tmp_path, capsys):
    theory(str(tmp_path))
    shown = capsys.readouterr().out
    assert "0.1125" in shown
    assert "unmasked with probability 0.5" in shown
    assert "majority rule" in shown
    assert "-log p <= NELBO holds in 100 of 100" in shown
    result = json.loads((tmp_path / "theory.json").read_text())
    assert result["em"]["rises"] == 0
    assert 0 <= result["bound"]["smallest_slack"] < 0.1
    assert result["bound"]["anchor_terms_differ_by"] < 1e-12
    assert (tmp_path / "complexity.png").stat().st_size > 10_000
    assert (tmp_path / "em.png").stat().st_size > 5_000
