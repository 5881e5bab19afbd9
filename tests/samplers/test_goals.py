"""What a text is for chooses how it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adlm.config import ModelConfig
from adlm.errors import UserError
from adlm.recipes import recipe
from adlm.samplers.categorical import Draw
from adlm.samplers.choice import check_memory, chosen, in_blocks, samplers_for
from adlm.samplers.goals import toward
from adlm.samplers.settings import SamplingSettings

MODELS = ("ar", "mdlm", "adlm", "bd3lm", "bd3lm-anchored", "sedd", "udlm", "a2r")


# what a recipe may be changed to, and its samplers with it
CHANGED = {
    "order": replace(recipe("laptop-mdlm"), objective="order"),
    "adlm-order": replace(recipe("laptop-adlm"), objective="adlm-order"),
    "self-conditioning": replace(recipe("laptop-mdlm"), model=ModelConfig(recall=0.5)),
    "loops": replace(recipe("laptop-mdlm"), model=ModelConfig(loops=2)),
}


def settled(model: str, **how: object) -> SamplingSettings:
    config = recipe(f"laptop-{model}")
    given = SamplingSettings(**how)
    return toward(given, config, samplers_for(config), not in_blocks(config))


@pytest.mark.parametrize("goal", ["exact", "best", "fast"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_write_toward_every_goal(model, goal):
    config, made = recipe(f"laptop-{model}"), settled(model, goal=goal)
    assert chosen(config, made, 32) in samplers_for(config)
    check_memory(made, config)


@pytest.mark.parametrize("goal", ["exact", "best", "fast"])
@pytest.mark.parametrize("name", CHANGED)
def test_so_can_every_form_of_them(name, goal):
    config = CHANGED[name]
    known = samplers_for(config)
    made = toward(SamplingSettings(goal=goal), config, known, not in_blocks(config))
    assert chosen(config, made, 32) in known
    check_memory(made, config)


def test_exact_is_the_reference_and_the_default():
    for model in MODELS:
        assert settled(model) == SamplingSettings()


def test_fast_keeps_what_a_model_can_keep():
    assert settled("mdlm", goal="fast").cache.kind == "dual"
    assert settled("mdlm", goal="fast").anchor_every == 1
    assert settled("adlm", goal="fast").anchor_every > 1
    assert settled("bd3lm", goal="fast").cache.kind == "none"  # its own is exact
    assert settled("mdlm", goal="fast").steps == 64 // 4
    assert settled("mdlm", goal="fast", steps=7).steps == 7
    assert settled("ar", goal="fast").sampler is None


def test_best_draws_from_the_likeliest_tokens_unless_told_otherwise():
    for model in MODELS:
        assert settled(model, goal="best").draw == Draw(nucleus=0.9)
        assert settled(model, goal="best", draw=Draw(0.7)).draw == Draw(0.7)
        assert settled(model, goal="fast").draw == Draw()
    assert settled("mdlm", goal="best").sampler == "remdm-cap"
    assert settled("bd3lm", goal="best").sampler == "confidence"


def test_a_goal_and_a_sampler_contradict_each_other():
    with pytest.raises(UserError, match="--goal fast chooses the sampler"):
        settled("mdlm", goal="fast", sampler="ancestral")
