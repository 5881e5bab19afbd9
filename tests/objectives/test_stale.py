"""Training for anchors that are some steps old."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.build import build_model
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator
from adlm.process.config import AnchorConfig
from adlm.types import Batch

VOCAB = byte_vocab()
MODEL = ModelConfig(width=8, blocks=1, heads=2, anchor_blocks=1)


def config(objective: str = "adlm", stale: float = 0.3, **process: object) -> Config:
    data = DataConfig(tokenizer="byte", length=8)
    anchor = AnchorConfig(gamma=0.5, stale=stale)
    return Config(objective, data, MODEL, ProcessConfig(**process), anchor)


def model(chosen: Config) -> Anchored:
    made = build_model(chosen, VOCAB.size).double()
    torch.manual_seed(0)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    if made.update is not None:
        torch.nn.init.zeros_(made.update.gate)
    return made


def batch() -> Batch:
    x = torch.randint(0, 200, (4, 8), generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.ones_like(x, dtype=torch.bool))


def score(chosen: Config, later: float | None = None):
    objective, net = make_objective(chosen, VOCAB), model(chosen)
    noise = objective.noise(4, 8, torch.Generator().manual_seed(2))
    if later is not None:
        noise = replace(noise, stale=torch.full((4,), later))
    return objective.score(net, batch(), noise, anchor=True), net


@pytest.mark.parametrize("objective", ["adlm", "adlm-bd3lm"])
def test_no_delay_and_a_closed_gate_are_plain_training(objective):
    plain, _ = score(config(objective, 0.0, block=4))
    same, _ = score(config(objective, 0.3, block=4), later=0.0)
    torch.testing.assert_close(same.rows, plain.rows, atol=0, rtol=0)
    torch.testing.assert_close(same.anchor, plain.anchor, atol=0, rtol=0)
    other, _ = score(config(objective, 0.3, block=4), later=0.9)
    assert not torch.equal(other.rows, plain.rows)


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
def test_the_anchor_network_sees_a_noisier_text_of_the_same_row(masking):
    objective = make_objective(config(masking=masking, stale=0.5), VOCAB)
    noise = objective.noise(4, 8, torch.Generator().manual_seed(2))
    now, earlier = objective.view(batch(), noise), objective.earlier(batch(), noise)
    hidden, before = now.z == VOCAB.mask, earlier.z == VOCAB.mask
    assert (before | ~hidden).all()
    assert before.sum() > hidden.sum()
    assert torch.equal(earlier.z[~before], now.z[~before])


def test_the_anchor_network_is_never_told_of_more_noise_than_there_is():
    plain = config(stale=1.0)
    told = ProcessConfig(masking="bernoulli", conditioned=True)
    seen = replace(plain, model=replace(MODEL, time=8), process=told)
    objective = make_objective(seen, VOCAB)
    noise = objective.noise(4, 8, torch.Generator().manual_seed(2))
    last = objective.view(batch(), replace(noise, t=torch.ones(4)))
    earlier = objective.earlier(batch(), replace(noise, stale=torch.ones(4)))
    assert torch.equal(earlier.z, last.z)
    assert torch.equal(earlier.context.sigma, last.context.sigma)
    assert earlier.context.sigma.isfinite().all()


def test_without_a_delay_no_number_is_drawn_for_one():
    for stale in (0.0, 0.3):
        objective = make_objective(config(stale=stale), VOCAB)
        noise = objective.noise(4, 8, torch.Generator().manual_seed(2))
        assert (noise.stale is None) == (stale == 0)


def test_the_update_learns():
    found, net = score(config(), later=0.9)
    found.bound.backward()
    assert net.update.gate.grad.abs().sum() > 0


def test_off_there_is_no_update_and_the_reported_bound_has_fresh_anchors():
    assert model(config(stale=0.0)).update is None
    assert evaluator(config(), VOCAB).config.stale == 0


def test_an_autoregressive_model_has_no_noisier_rows():
    with pytest.raises(UserError, match=r"anchor.stale is for diffusion, found the objective a2r"):
        make_objective(config("a2r"), VOCAB)
