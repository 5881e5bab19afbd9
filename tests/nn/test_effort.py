"""Loops over the middle blocks, self-conditioning: what a pass does, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from adlm.config import Config, DataConfig, ModelConfig
from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.models.cost import flops_per_token, training_flops
from adlm.nn.context import Context
from adlm.nn.effort import Effort

MODEL = ModelConfig(width=16, blocks=4, heads=2, conv=3)
Z = torch.arange(12).view(2, 6)


def network(seed: int = 0, objective: str = "mdlm", **changes):
    config = Config(objective, DataConfig(length=6), replace(MODEL, **changes))
    torch.manual_seed(seed)
    made = build_model(config, 13)
    torch.manual_seed(seed + 1)
    for name, parameter in made.named_parameters():
        if "recall" not in name:
            nn.init.normal_(parameter, std=0.3)
    return made.eval()


def test_a_looped_network_is_one_whose_middle_blocks_are_written_out():
    looped = network(loops=3)
    assert looped.trunk.effort == Effort(loops=3)
    long = network(blocks=8)
    for name in ("embed", "head"):
        getattr(long, name).load_state_dict(getattr(looped, name).state_dict())
    long.trunk.norm.load_state_dict(looped.trunk.norm.state_dict())
    for place, number in enumerate([0, 1, 2, 1, 2, 1, 2, 3]):
        long.trunk.blocks[place].load_state_dict(looped.trunk.blocks[number].state_dict())
    assert torch.equal(looped.logits(Z), long.logits(Z))


def test_one_loop_and_no_recall_are_the_network_as_it_was():
    plain, same = network(), network(loops=1, loops_scored=1, recall_passes=1)
    assert plain.state_dict().keys() == same.state_dict().keys()
    assert torch.equal(plain.logits(Z), same.logits(Z))
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    assert Effort.drawn(MODEL, generator) == Effort()
    assert torch.equal(generator.get_state(), before)  # nothing is drawn


def test_a_fresh_second_pass_changes_nothing_and_a_trained_one_sees_the_first():
    once, twice = network(recall=0.5, recall_passes=1), network(recall=0.5)
    assert torch.equal(once.logits(Z), twice.logits(Z))  # the map starts at zero
    nn.init.normal_(twice.trunk.recall.weight, std=0.1)
    told = twice.embed(Z) + twice.trunk.recall(once(Z).denoiser)
    twice.trunk.effort = Effort()
    right = twice.logits(told)
    twice.trunk.effort = Effort(passes=2)
    assert torch.allclose(twice.logits(Z), right, atol=1e-6)
    assert not torch.allclose(twice.logits(Z), once.logits(Z), atol=1e-3)


def test_no_gradient_flows_into_the_first_pass():
    model = network(recall=1.0)
    nn.init.normal_(model.trunk.recall.weight, std=0.1)
    with torch.no_grad():
        model.trunk.effort = Effort()
        first = model(Z).denoiser
    told = first.clone()
    h = model.embed(Z) + model.trunk.recall(told)
    right = torch.autograd.grad(model(h).denoiser.sum(), model.embed.weight)[0]
    model.trunk.effort = Effort(passes=2)
    found = torch.autograd.grad(model(Z).denoiser.sum(), model.embed.weight)[0]
    assert torch.allclose(found, right, atol=1e-5)


def test_decoding_with_a_cache_loops_too():
    model = network(objective="ar", loops=3)
    whole = model.logits(Z)
    cache, parts = model.new_cache(), []
    for place in range(Z.shape[1]):
        parts.append(model.logits(Z[:, place : place + 1], Context(cache=cache)))
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)


def test_what_is_drawn_is_spread_over_all_choices():
    generator = torch.Generator().manual_seed(0)
    model = replace(MODEL, loops=4, recall=0.25)
    made = [Effort.drawn(model, generator) for _ in range(2000)]
    assert {e.loops for e in made} == {1, 2, 3, 4}
    assert sum(e.passes == 2 for e in made) / 2000 == pytest.approx(0.25, abs=0.04)
    assert sum(e.loops for e in made) / 2000 == pytest.approx(2.5, abs=0.1)


def test_flops_count_every_run_of_a_block():
    def of(**changes) -> Config:
        return Config("mdlm", DataConfig(length=6), replace(MODEL, **changes))

    deep = flops_per_token(of(blocks=8), 13)  # 1 + 3 x 2 + 1
    assert flops_per_token(of(loops=3), 13) == deep
    assert flops_per_token(of(loops=3, loops_scored=1), 13) == flops_per_token(of(), 13)
    mean = training_flops(of(loops=3), 13)  # of 1, 2 and 3 loops
    assert mean == pytest.approx(training_flops(of(blocks=6), 13))
    bare, width = flops_per_token(of(), 13, head_share=0.0), MODEL.width
    assert flops_per_token(of(recall=0.5), 13) == flops_per_token(of(), 13) + bare + 2 * width**2
    more = training_flops(of(recall=0.5), 13) - training_flops(of(), 13)
    assert more == pytest.approx(0.5 * (bare + 6 * width**2))


@pytest.mark.parametrize(
    ("objective", "changes", "said"),
    [
        ("mdlm", {"loops": 2, "blocks": 2}, "model.blocks must be 3 or more with loops"),
        ("ar", {"recall": 0.5}, "found the objective ar"),
        ("adlm", {"recall": 0.5, "anchor_blocks": 1}, "without anchor network"),
        ("mdlm", {"recall": 1.5}, "model.recall must be in"),
    ],
)
def test_senseless_settings_are_one_sentence(objective, changes, said):
    with pytest.raises(UserError, match=said):
        network(objective=objective, **changes)
