"""model.init published: the released code's starting weights."""

from __future__ import annotations

from dataclasses import replace

import torch

from adlm.config import Config, ModelConfig
from adlm.models.build import build_model
from adlm.recipes import recipe

SHAPE = ModelConfig(width=64, blocks=1, heads=2, time=16, anchor_blocks=1, init="published")


def test_published_weights_are_uniform_and_heads_zero():
    torch.manual_seed(0)
    model = build_model(Config("adlm", model=SHAPE), 500).requires_grad_(False)
    for matrix in (model.embed.weight, model.trunk.blocks[0].up.weight):  # 64 inputs each
        assert matrix.abs().max() <= 64**-0.5
        assert abs(float(matrix.std()) / (3 * 64) ** -0.5 - 1) < 0.02
    assert abs(float(model.bridge.project.weight.std()) / (3 * 500) ** -0.5 - 1) < 0.02
    heads = (model.head, model.anchor_head, model.trunk.modulation)
    assert all(not p.any() for head in heads for p in head.parameters())


def test_a_bridge_beside_the_stream_still_starts_at_zero():
    model = build_model(Config("adlm", model=replace(SHAPE, residual=True)), 50)
    assert not any(p.any() for p in model.bridge.parameters())


def test_the_papers_recipes_start_and_pack_as_published():
    for name in ("lm1b-mdlm", "lm1b-ar", "owt-mdlm", "owt-adlm", "owt-a2r", "owt-sedd"):
        config = recipe(name)
        assert config.model.init == "published"
        assert config.data.compat
