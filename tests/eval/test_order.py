"""The likelihood of an order is one: it sums to 1 over all texts, and is the chain rule."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.errors import UserError
from adlm.eval.order import ORDERS, check_order, order_nats
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.objectives.subs import zero_masking
from adlm.types import Batch

MASK, LENGTH = 3, 4  # tokens 0, 1, 2
SHAPE = ModelConfig(width=8, blocks=1, heads=2, conv=3, anchor_blocks=1)


def network(objective: str = "adlm", time: int = 0) -> Denoiser:
    process = ProcessConfig(block=2)
    config = Config(objective, DataConfig(length=LENGTH), replace(SHAPE, time=time), process)
    model = build_model(config, MASK + 1).double()
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model.eval()


def texts() -> Batch:
    x = torch.tensor(list(itertools.product(range(MASK), repeat=LENGTH)))
    return Batch(x, torch.ones_like(x, dtype=torch.bool))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", ["adlm", "adlm-bd3lm"])
@torch.no_grad()
def test_the_probabilities_of_all_texts_add_up_to_one(objective, order):
    nats = order_nats(network(objective), texts(), order, MASK)
    assert nats.neg().exp().sum().item() == pytest.approx(1, abs=1e-12)


@torch.no_grad()
def test_a_network_that_sees_the_noise_level_has_a_likelihood_too():
    nats = order_nats(network(time=4), texts(), "confidence", MASK, conditioned=True)
    assert nats.neg().exp().sum().item() == pytest.approx(1, abs=1e-12)


@torch.no_grad()
def test_left_to_right_is_the_chain_rule_written_out():
    model, batch = network(), texts()
    expected = torch.zeros(len(batch), dtype=torch.float64)
    for place in range(LENGTH):
        z = batch.x.clone()
        z[:, place:] = MASK
        log_p = zero_masking(model.logits(z)[:, place], MASK)
        expected -= log_p.gather(1, batch.x[:, place : place + 1]).squeeze(1)
    torch.testing.assert_close(order_nats(model, batch, "left-to-right", MASK), expected)


@torch.no_grad()
def test_orders_differ_and_a_prompt_is_not_scored():
    model, batch = network(), texts()
    found = [order_nats(model, batch, order, MASK) for order in ORDERS]
    assert not torch.allclose(found[0], found[2])
    given = torch.zeros_like(batch.valid)
    given[:, :3] = True
    last = zero_masking(model.logits(batch.x.index_fill(1, torch.tensor([3]), MASK))[:, 3], MASK)
    nats = order_nats(model, replace(batch, given=given), "confidence", MASK)
    torch.testing.assert_close(nats, -last.gather(1, batch.x[:, 3:]).squeeze(1))


@pytest.mark.parametrize(
    ("objective", "order", "said"),
    [
        ("ar", "confidence", "--order is for masked diffusion, found the objective ar"),
        ("sedd", "confidence", "--order is for masked diffusion, found the objective sedd"),
        ("mdlm", "anchor-first", "--order anchor-first needs an anchor network; mdlm has none"),
    ],
)
def test_an_order_that_a_model_does_not_have_is_said_so(objective, order, said):
    with pytest.raises(UserError, match=said):
        check_order(order, Config(objective))
