"""Samplers against exact distributions, and what they must never do."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from adlm.config import Config, DataConfig, ModelConfig
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import States
from adlm.nn.context import Context
from adlm.objectives.subs import zero_masking
from adlm.process.schedule import make_schedule
from adlm.registry import lookup, names
from adlm.samplers import canvas as canvases
from adlm.samplers.base import Canvas, make_policy, run
from adlm.samplers.categorical import Draw, inverse
from adlm.samplers.causal import run_causal
from adlm.samplers.choice import find_way
from adlm.samplers.confidence import MEASURES, surest
from adlm.samplers.random import RowRandom
from adlm.samplers.settings import SamplingSettings
from adlm.theory.enumerate import MASK, TabularPair, distribution
from tests.nn.test_trunk import model as random_trunk
from tests.objectives.test_ar import random_model
from tests.samplers.tables import (
    LIMITS,
    PLAIN,
    Network,
    V,
    canvas,
    chi_square,
    random_order,
    two_tables,
)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_ancestral_sampling_is_the_exact_reverse_process(steps):
    table = TabularPair.random(3, seed=steps)
    made = canvas(Network(table), 20_000, 3)
    run(made, lookup("sampler", "ancestral")(make_schedule("log-linear")), steps)
    exact = {x: p for x, p in distribution(table, steps).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[7]


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(("sampler", "eta"), [("ancestral", 0.0), ("remdm-cap", 0.2)])
def test_a_network_that_sees_the_noise_level_is_told_that_of_each_step(sampler, eta, steps):
    net, tables = two_tables(steps)
    made = canvas(net, 20_000, 3)
    options = {"eta": eta} if eta else {}
    run(made, make_policy(sampler, make_schedule("log-linear"), options), steps)
    exact = {x: p for x, p in distribution(tables, steps, eta).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[7]
    blind = {x: p for x, p in distribution(tables[0], steps, eta).items() if MASK not in x}
    assert (chi_square(made.z, blind) > 10 * LIMITS[7]) == (steps > 1)


def test_first_hitting_tells_the_noise_level_of_the_time_it_hits():
    """The same distribution as many small steps, each told its own level."""
    net, tables = two_tables(256)
    made = canvas(net, 20_000, 3)
    run(made, make_policy("first-hitting", make_schedule("log-linear")), 3)
    exact = {x: p for x, p in distribution(tables, 256).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[7]
    assert (made.nfe == 3).all()


@pytest.mark.parametrize("name", PLAIN)
def test_every_sampler_writes_with_a_network_that_sees_the_noise_level(name):
    made = canvas(two_tables(4)[0], 20, 3)
    run(made, make_policy(name, make_schedule("cosine")), 4)
    assert not made.open.any()
    assert ((made.alpha >= 0) & (made.alpha <= 1)).all()


@pytest.mark.parametrize("name", [n for n in names("sampler") if "anchor" not in n])
def test_a_schedule_that_is_flat_to_the_last_bit_ends_without_masks(name):
    """polynomial:10 has alpha = 1 at t = 1/64, in double precision too."""
    made = canvas(Network(TabularPair.random(3, seed=1)), 50, 3)
    run(made, make_policy(name, make_schedule("polynomial:10")), 64)
    assert not (made.z == MASK).any()


def test_first_hitting_is_the_process_in_random_order_and_the_limit_of_ancestral():
    table = TabularPair.random(3, seed=9)
    exact = random_order(table)
    made = canvas(Network(table), 20_000, 3)
    run(made, lookup("sampler", "first-hitting")(make_schedule("log-linear")), 3)
    assert chi_square(made.z, exact) < LIMITS[7]
    assert (made.nfe == 3).all()
    many = distribution(table, 256)
    assert max(abs(many[x] - p) for x, p in exact.items()) < 0.01


def test_causal_sampling_is_the_enumerated_joint():
    model = random_model(causal=True)
    made = canvas(model, 8_000, 3)
    run_causal(made, bos=0)
    exact = {}
    for x in itertools.product((0, 1), repeat=3):
        log_p = 0.0
        for position in range(3):
            seen = torch.tensor([[0, *x[:position]]])
            log_p += zero_masking(model.logits(seen)[0, -1], MASK)[x[position]].item()
        exact[x] = math.exp(log_p)
    assert chi_square(made.z, exact) < LIMITS[7]


def test_the_cache_changes_nothing():
    net = random_trunk(causal=True)
    found = []
    for cached in (True, False):
        z = torch.full((3, 9), 19)
        frozen = torch.zeros_like(z, dtype=torch.bool)
        made = Canvas(z, frozen, 19, net, Draw(), RowRandom(1, range(3)))
        run_causal(made, bos=0, cached=cached)
        found.append(made.z)
    assert torch.equal(*found)


@pytest.mark.parametrize("by", ["probability", "margin", "entropy"])
def test_confidence_writes_the_surest_position_first(by):
    table = TabularPair.random(4, seed=5)
    logits = Network(table)(torch.full((1, 4), MASK)).denoiser[0]
    p = logits[:, :2].softmax(dim=1)
    made = canvas(Network(table), 1, 4, draw=Draw(temperature=0))
    order: list[int] = []
    policy = make_policy("confidence", make_schedule("log-linear"), {"by": by})
    run(made, policy, 4, lambda n, c: order.append((c.z != MASK)[0].nonzero()[:, 0].tolist()))
    surest = int(p.max(dim=1).values.argmax())  # of two tokens all three measures agree
    assert order[1] == [surest]
    assert [len(o) for o in order] == [0, 1, 2, 3, 4]


def test_a_threshold_writes_all_that_is_sure_at_once():
    table = TabularPair.random(4, seed=5)
    p = Network(table)(torch.full((1, 4), MASK)).denoiser[0][:, :2].softmax(dim=1)
    sure = p.max(dim=1).values * 2 - 1  # margin
    made = canvas(Network(table), 1, 4)
    counts: list[int] = []
    options = {"by": "margin", "threshold": float(sure.sort().values[1])}
    policy = make_policy("confidence", make_schedule("log-linear"), options)
    run(made, policy, 9, lambda n, c: counts.append(int((c.z != MASK).sum())))
    assert counts[:2] == [0, 3]
    assert counts[-1] == 4


def anchored_canvas(rows: int, seed: int = 0, causal: bool = False) -> Canvas:
    torch.manual_seed(seed)
    config = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1)
    net = Anchored(11, config, causal).double()
    z = torch.full((rows, 6), 10)
    return Canvas(z, z < 0, 10, net.eval(), Draw(), RowRandom(seed, range(rows)))


def test_anchor_first_goes_where_the_anchor_network_is_surest():
    made = anchored_canvas(3)
    for parameter in made.model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    made.z[:, 2] = torch.arange(3)  # where all is masked, all would be equally sure
    made.frozen = made.z != 10
    states = made.model(made.z)
    sure = made.model.anchor_head(states.anchor)[..., :10].softmax(dim=-1).amax(dim=-1)
    first: list[Tensor] = []
    policy = make_policy("anchor-first", make_schedule("log-linear"))
    run(made, policy, 5, lambda n, c: first.append(c.written))
    best = sure.masked_fill(made.frozen, 0.0).argmax(dim=1)
    assert torch.equal(first[1].double().argmax(dim=1), best)
    assert len(best.unique()) > 1
    assert not made.open.any()


@pytest.mark.parametrize("seed", range(4))
def test_anchor_first_and_causal_keep_frozen_tokens_and_rows_apart(seed):
    for causal in (False, True):
        together = anchored_canvas(4, seed, causal)
        generator = torch.Generator().manual_seed(seed)
        together.frozen = torch.rand(4, 6, generator=generator) < 0.4
        given = torch.randint(0, 10, (4, 6), generator=generator)
        together.z = torch.where(together.frozen, given, 10)
        start = together.z.clone()
        write(together, causal)
        assert torch.equal(together.z[together.frozen], given[together.frozen])
        assert not together.open.any()
        for row in range(4):
            alone = anchored_canvas(1, seed, causal)
            alone.model = together.model
            alone.z, alone.frozen = start[row : row + 1], together.frozen[row : row + 1]
            alone.random = RowRandom(seed, range(row, row + 1))
            write(alone, causal)
            assert torch.equal(alone.z[0], together.z[row])


def write(made: Canvas, causal: bool) -> None:
    if causal:
        run_causal(made, bos=0)
    else:
        run(made, make_policy("anchor-first", make_schedule("log-linear")), 3)


def test_blocks_are_written_from_left_to_right_through_a_window():
    seen: list[int] = []

    class Spy(Network):
        def forward(self, z: Tensor, context: Context = Context()) -> States:
            seen.append(z.shape[1])
            return super().forward(z, context)

    policy = make_policy("blocks", make_schedule("log-linear"), {"size": 2, "context": 3})
    made = canvas(Spy(TabularPair.random(3, 1)), 2, 7)

    def look(number: int, now: Canvas) -> None:
        written = (now.z != MASK).long()
        done = written.cumprod(dim=1).sum(dim=1)  # length of the unbroken beginning
        assert (written.sum(dim=1) - done <= 2).all()

    run(made, policy, 14, look)
    assert not made.open.any()
    assert set(seen) == {3}


def test_blocks_of_the_whole_length_are_the_inner_sampler():
    found = []
    for name, options in [("ancestral", {}), ("blocks", {"size": 4})]:
        made = canvas(Network(TabularPair.random(4, 1)), 50, 4, seed=2)
        run(made, make_policy(name, make_schedule("log-linear"), options), 6)
        found.append(made.z)
    assert torch.equal(*found)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(PLAIN),
    st.integers(1, 6),
)
def test_frozen_tokens_are_never_touched_and_everything_else_is_written(seed, sampler, steps):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(0, 3, (4, 5), generator=generator)
    frozen = torch.rand(4, 5, generator=generator) < 0.4
    z = torch.where(frozen, z, MASK)
    made = Canvas(
        z, frozen, MASK, Network(TabularPair.random(5, 1)), Draw(), RowRandom(seed, range(4))
    )  # type: ignore[arg-type]
    run(made, make_policy(sampler, make_schedule("cosine")), steps)
    assert torch.equal(made.z[frozen], z[frozen])
    assert not made.open.any()


@pytest.mark.parametrize("sampler", PLAIN)
def test_a_row_does_not_depend_on_the_rows_beside_it(sampler):
    net = Network(TabularPair.random(4, 2))
    policy = lookup("sampler", sampler)(make_schedule("log-linear"))
    together = canvas(net, 6, 4, seed=5)
    run(together, policy, 4)
    for row in range(6):
        z = torch.full((1, 4), MASK)
        alone = Canvas(z, z < 0, MASK, net, Draw(), RowRandom(5, range(row, row + 1)))  # type: ignore[arg-type]
        run(alone, policy, 4)
        assert torch.equal(alone.z[0], together.z[row])
        assert alone.nfe[0] == together.nfe[row]


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("ancestral", {}),
        *((s, {"by": by}) for s in ("confidence", "anchor-first") for by in MEASURES),
    ],
)
def test_logits_a_few_positions_at_a_time_are_the_same(sampler, options, monkeypatch):
    config = ModelConfig(width=8, blocks=1, heads=2, anchor_blocks=1)
    torch.manual_seed(0)
    model = Anchored(V, config, causal=False, max_length=8).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    found = []
    for elements in (canvases.ELEMENTS, 5 * V, 1):  # all, five, one
        monkeypatch.setattr(canvases, "ELEMENTS", elements)
        made = canvas(model, 4, 7)
        run(made, make_policy(sampler, make_schedule("log-linear"), options), 3)
        found.append(made)
    for made in found[1:]:
        assert torch.equal(made.z, found[0].z)
        assert torch.allclose(made.probability, found[0].probability, rtol=1e-12)
        assert made.heads == found[0].heads


def test_a_row_that_did_not_change_is_not_passed_again():
    made = canvas(Network(TabularPair.random(3, 3)), 50, 3)
    run(made, lookup("sampler", "ancestral")(make_schedule("log-linear")), 200)
    assert made.nfe.max() <= 3
    assert made.nfe.min() >= 1


def test_any_seed_can_be_taken():
    assert SamplingSettings(seed=2**31 - 1).seed == 2**31 - 1
    drawn = [RowRandom(seed, [0]).uniform(8) for seed in (0, 2**62 + 1, 2**63 - 1)]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(drawn, 2))


def test_a_block_may_be_one_token():
    assert make_policy("blocks", make_schedule("log-linear"), {"size": 1}).size == 1


@pytest.mark.parametrize(("asked", "taken"), [(0, 16), (8, 8), (99, 16)])
def test_blocks_see_no_more_than_a_trained_row(asked, taken):
    options = {"size": 4, "context": asked}
    way = find_way("blocks", Config(data=DataConfig(length=16)), SamplingSettings(policy=options))
    assert way.context == taken


@pytest.mark.parametrize("options", [{"level": 0.0}, {"level": 1.0}, {"corrections": -1}])
def test_wrong_options_of_the_self_correction_are_refused(options):
    with pytest.raises(UserError, match=f"--policy.{next(iter(options))} must be"):
        make_policy("self-correct", make_schedule("log-linear"), options)


@pytest.mark.parametrize("s", [0.0, 0.5])
def test_the_last_step_writes_what_is_left_whatever_the_threshold(s):
    waiting, sure = torch.ones(1, 3, dtype=torch.bool), torch.tensor([0.2, 0.3, 0.1])
    written = surest(waiting, sure, torch.zeros(1, 3), 1.0, s, threshold=0.9)
    assert written.tolist() == ([[True] * 3] if s == 0 else [[False, True, False]])


def test_the_end_of_the_unit_interval_is_the_last_token():
    p = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    assert inverse(p, torch.ones(1, dtype=torch.float64)).tolist() == [1]


def test_what_is_given_is_certain():
    made = canvas(Network(TabularPair.random(2, seed=0)), rows=3, length=2)
    made.z[:, 0], made.frozen[:, 0] = 0, True
    run(made, make_policy("first-hitting", make_schedule("log-linear")), 2)
    assert (made.probability[:, 0] == 1).all()
    assert (made.probability[:, 1] < 1).all()
