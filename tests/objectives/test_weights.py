"""What is minimised may be weighted; what is reported is the bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.config import Config, ModelConfig, ProcessConfig
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator
from adlm.objectives.mdlm import of_bound
from adlm.types import Batch, Noise

BELL = ProcessConfig(times="bell:0.5:0.1", weight="flat")
SMALL = ModelConfig(width=16, blocks=1, heads=2)
VOCAB = byte_vocab()


def given(rows=6, length=12):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 200, (rows, length), generator=generator)
    noise = Noise(
        torch.rand(rows, generator=generator), torch.rand(rows, length, generator=generator)
    )
    return Batch(x, torch.ones_like(x, dtype=torch.bool)), noise


@pytest.mark.parametrize(("objective", "front"), [("mdlm", 0), ("adlm", 1)])
def test_what_is_reported_does_not_depend_on_what_is_minimised(objective, front):
    config = Config(objective, model=replace(SMALL, anchor_blocks=front))
    model = build_model(config, VOCAB.size).eval()
    batch, noise = given()
    scored = [
        evaluator(replace(config, process=process), VOCAB).score(model, batch, noise).rows
        for process in (ProcessConfig(), BELL, ProcessConfig(weight="clamp:1.5"))
    ]
    assert torch.equal(scored[0], scored[1])
    assert torch.equal(scored[0], scored[2])


def test_flat_counts_every_hidden_token_alike():
    config = Config(model=SMALL)
    model = build_model(config, VOCAB.size).eval()
    batch, noise = given()
    bound = make_objective(config, VOCAB)
    flat = make_objective(replace(config, process=replace(config.process, weight="flat")), VOCAB)
    view = bound.view(batch, noise)
    row = bound.score(model, batch, noise).rows
    alike = flat.score(model, batch, noise)
    assert torch.allclose(alike.rows, 2 * row / view.weight)
    assert alike.bound.item() == pytest.approx(alike.rows.sum().item(), rel=1e-5)
    assert bound.bound
    assert not flat.bound


def test_the_weight_of_a_prediction_may_differ_by_position():
    config = Config(model=SMALL)
    model = build_model(config, VOCAB.size).eval()
    batch, noise = given()
    objective = make_objective(config, VOCAB)
    view = objective.view(batch, noise)
    h = model(view.z, replace(view.context, wanted=view.wanted)).denoiser
    bound, nats = objective.loss(h, model.head, view)
    spread = replace(view, weight=view.weight[:, None].expand_as(view.z))
    same, again = objective.loss(h, model.head, spread)
    assert torch.equal(same, bound)
    assert torch.equal(again, nats)
    assert torch.equal(spread.by_row(nats), view.by_row(nats))
    one = replace(view, weight=torch.zeros_like(view.z, dtype=torch.float32))
    row, place = view.wanted.nonzero()[0].tolist()
    one.weight[row, place] = 3.0
    assert objective.loss(h, model.head, one)[0].item() == pytest.approx(3 * nats[0].item())
    assert one.by_row(nats)[row].item() == pytest.approx(3 * nats[0].item())


def test_times_of_a_step_follow_the_rule():
    objective = make_objective(Config(model=SMALL, process=BELL), VOCAB)
    t = objective.noise(64, 4, torch.Generator().manual_seed(0)).t
    assert 0.1 < t.min() < t.median() < t.max() < 0.9
    assert (t > 0.4).sum() - (t > 0.6).sum() > 38  # two thirds within one width


def test_a_bell_with_the_bound_s_weight_is_refused():
    with pytest.raises(UserError, match="is no bound: take flat or clamp:MOST"):
        make_objective(Config(model=SMALL, process=replace(BELL, weight="bound")), VOCAB)
    assert of_bound(Config(process=BELL)).process == ProcessConfig()
