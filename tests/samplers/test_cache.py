"""What is kept between steps: exact where it is said to be, and never another row's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from adlm.config import ModelConfig
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.nn.cache import RowBlock, RowCache
from adlm.nn.context import Context
from adlm.nn.layout import Layout, PartLayout
from adlm.process.schedule import make_schedule
from adlm.samplers.base import Canvas, Policy, make_policy, run
from adlm.samplers.blocks import InBlocks
from adlm.samplers.cache import CacheSettings, Memory
from adlm.samplers.categorical import Draw
from adlm.samplers.random import RowRandom

MASK, LENGTH = 10, 12
SCHEDULE = make_schedule("log-linear")
KINDS = ("prefix", "dual", "delayed")
SAMPLERS = ("ancestral", "first-hitting", "remdm-cap", "confidence")
SHAPE = ModelConfig(width=8, blocks=2, heads=2, conv=3)


def network(shape: ModelConfig = SHAPE) -> Denoiser:
    torch.manual_seed(0)
    make = Anchored if shape.anchor_blocks else Denoiser
    model = make(MASK + 1, shape, False, LENGTH).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def canvas(model: Denoiser, rows: range = range(5), **how: object) -> Canvas:
    z = torch.full((len(rows), LENGTH), MASK)
    z[:, 3] = 1
    return Canvas(z, z != MASK, MASK, model, Draw(), RowRandom(2, rows), **how)


def policy(sampler: str, kind: str = "none", **options: float) -> Policy:
    made = make_policy(sampler, SCHEDULE, options)
    return InBlocks(SCHEDULE, made, 4) if kind in ("prefix", "dual") else made


def write(model: Denoiser, sampler: str, kind: str, every: int, **how: object) -> Canvas:
    """Written with a cache; `blocks` says whether without one it is block by block, too."""
    how["cache"] = CacheSettings(kind, every)
    blocks = how.pop("blocks", kind)
    made = canvas(model, **how)
    run(made, policy(sampler, blocks), LENGTH)
    return made


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("anchors", [0, 1], ids=["plain", "anchored"])
@pytest.mark.parametrize("time", [0, 4], ids=["", "conditioned"])
def test_renewed_in_every_step_each_cache_is_none_to_the_bit(sampler, kind, anchors, time):
    model = network(replace(SHAPE, anchor_blocks=anchors, time=time))
    how = {"conditioned": bool(time)}
    kept = write(model, sampler, kind, 1, **how)
    plain = write(model, sampler, "none", 1, blocks=kind, **how)
    assert torch.equal(kept.z, plain.z)
    assert torch.equal(kept.probability, plain.probability)
    assert torch.equal(kept.nfe, plain.nfe)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_single_block_without_convolution_makes_every_cache_exact(sampler, kind):
    """Keys and values of a position then depend on its own token alone, and it is still there."""
    model = network(replace(SHAPE, blocks=1, conv=0))
    kept, plain = write(model, sampler, kind, 100), write(model, sampler, "none", 1, blocks=kind)
    assert torch.equal(kept.z, plain.z)
    torch.testing.assert_close(kept.probability, plain.probability, atol=1e-12, rtol=0)
    assert kept.passed.sum() < plain.passed.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("anchors", [0, 1], ids=["plain", "anchored"])
def test_a_row_does_not_depend_on_those_beside_it(kind, anchors):
    """Rows of a delayed cache renew different numbers of positions."""
    model = network(replace(SHAPE, anchor_blocks=anchors))
    together = write(model, "confidence", kind, 3)
    assert not together.open.any()
    for row in range(5):
        alone = write(model, "confidence", kind, 3, rows=range(row, row + 1))
        assert torch.equal(alone.z[0], together.z[row])
        assert alone.nfe[0] == together.nfe[row]


@pytest.mark.parametrize("kind", KINDS)
def test_old_keys_change_what_is_written_and_cost_fewer_positions(kind):
    model = network()
    kept, plain = write(model, "first-hitting", kind, 100), write(model, "first-hitting", "none", 1)
    assert not torch.equal(kept.z, plain.z)
    assert (kept.passed < plain.passed).all()


def test_dual_passes_the_block_alone_but_for_its_first_step():
    made = write(network(), "first-hitting", "dual", 100)
    assert made.nfe.tolist() == [11] * 5  # one position is given
    assert made.passed.tolist() == [3 * LENGTH + (11 - 3) * 4] * 5


@pytest.mark.parametrize("positions", ["rotary", "learned"])
@pytest.mark.parametrize("at", [[5, 1, 2], [[5, 1, 2], [0, 3, 4]]], ids=["same", "each its own"])
@pytest.mark.parametrize("segment", [None, [0, 0, 0, 0, 1, 1]])
def test_positions_passed_again_say_what_they_said_in_the_whole_row(positions, at, segment):
    model = network(replace(SHAPE, conv=5, positions=positions))
    z = torch.randint(0, MASK, (2, 6))
    parts = None if segment is None else torch.tensor([segment]).expand(2, -1)
    kept = RowCache([RowBlock() for _ in model.new_cache().blocks])
    with torch.no_grad():
        shown = kept.part(None, None)
        whole = model(z, Context(Layout(False, parts), cache=shown)).denoiser
        kept.merge(None, shown, 2)
        chosen = torch.tensor(at)
        seen = z.gather(1, chosen.expand(2, -1))
        layout = PartLayout(False, parts, at=chosen, total=6)
        again = model(seen, Context(layout, cache=kept.part(None, chosen))).denoiser
    expected = whole.gather(1, chosen.expand(2, -1)[..., None].expand(-1, -1, 8))
    torch.testing.assert_close(again, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_a_threshold_takes_as_many_passes_as_a_text_needs(kind):
    model = network()
    made = canvas(model, cache=CacheSettings(kind, 4))
    run(made, policy("confidence", kind, threshold=0.12), LENGTH)
    assert not made.open.any()
    assert made.nfe.min() < 11
    assert len(set(made.nfe.tolist())) > 1


@pytest.mark.parametrize("every", [1, 2, 4])
@pytest.mark.parametrize("kind", ["none", "dual"])
def test_the_anchor_trunk_runs_every_k_steps(every, kind):
    model = network(replace(SHAPE, anchor_blocks=1))
    calls = []
    model.anchor_trunk.register_forward_hook(lambda *_: calls.append(1))
    made = canvas(model, cache=CacheSettings(kind, 100), anchor_every=every)
    run(made, policy("first-hitting", kind), LENGTH)
    assert made.nfe.tolist() == [11] * 5
    blocks = (3, 4, 4) if kind == "dual" else (11,)  # steps of each; a block begins afresh
    assert len(calls) == sum(-(-steps // every) for steps in blocks)


def test_anchors_of_every_step_are_todays_texts_and_older_ones_are_not():
    model = network(replace(SHAPE, anchor_blocks=1))
    plain, one, four = canvas(model), canvas(model, anchor_every=1), canvas(model, anchor_every=4)
    for made in (plain, one, four):
        run(made, policy("ancestral"), LENGTH)
    assert torch.equal(plain.z, one.z)
    assert torch.equal(plain.probability, one.probability)
    assert not torch.equal(plain.z, four.z)
    assert four.anchors_passed.sum() < one.anchors_passed.sum()


def test_the_convolution_sees_the_new_tokens_among_the_old():
    """In one block a token changes the keys of its neighbours only: those are passed again."""
    model = network(replace(SHAPE, blocks=1))
    z = torch.randint(0, MASK, (2, 8))
    kept, at = RowCache([RowBlock()]), torch.tensor([2, 3, 4])
    with torch.no_grad():
        shown = kept.part(None, None)
        model(z, Context(cache=shown))
        kept.merge(None, shown, 2)
        z[:, 3] = (z[:, 3] + 1) % MASK
        layout = PartLayout(False, at=at, total=8)
        again = model(z[:, at], Context(layout, cache=kept.part(None, at))).denoiser
        torch.testing.assert_close(again, model(z).denoiser[:, at], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("kind", "right"), [("dual", [2, 3]), ("prefix", [2, 3, 4, 5])])
def test_positions_of_a_pass_are_counted_from_where_the_window_begins(kind, right):
    memory = Memory(1, 12, CacheSettings(kind))
    at = memory.part(np.ones((1, 6), dtype=bool), slice(6, 8), slice(4, 10))
    assert at is not None
    assert at.tolist() == right


@pytest.mark.parametrize("kind", ["none", "dual", "delayed"])
@pytest.mark.parametrize("anchor_every", [1, 2, 3])
def test_a_step_passes_every_wanted_row_once(kind, anchor_every):
    memory = Memory(4, 6, CacheSettings(kind, every=4), anchor_every)
    dice = np.random.default_rng(0)
    for step in range(12):
        wanted = dice.random(4) < 0.7
        passed = np.tile(np.arange(6) < 3, (4, 1))
        plan = memory.plan(wanted, passed, slice(0, 3), slice(0, 6), step)
        found = list(plan)
        rows = [row for one in found for row in one.rows]
        assert sorted(rows) == np.flatnonzero(wanted).tolist()
        renewed = [one.anchors for one in found if one.at is None and kind != "none"]
        assert all(renewed)  # where all is renewed, anchors are


def test_a_cache_may_be_kept_for_a_million_steps():
    assert CacheSettings("dual", every=10**6, block=10**6).every == 10**6
    with pytest.raises(UserError, match=r"--cache\.block must be at most 1,000,000"):
        CacheSettings("dual", block=10**6 + 1)
