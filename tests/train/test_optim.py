"""Which optimiser trains what."""

from __future__ import annotations

import pytest
import torch

from adlm import device as devices
from adlm.config import Config, ModelConfig, OptimConfig
from adlm.models.anchored import Anchored
from adlm.models.build import build_model
from adlm.train.optim import Optimizers, turning
from adlm.world import World


@pytest.mark.parametrize("time", [0, 8])
@pytest.mark.parametrize("anchor_blocks", [0, 2])
def test_muon_has_every_matrix_of_every_trunk_and_nothing_else(anchor_blocks, time):
    shape = ModelConfig(width=16, blocks=2, heads=2, conv=3, time=time, anchor_blocks=anchor_blocks)
    objective = "adlm" if anchor_blocks else "mdlm"
    model = build_model(Config(objective=objective, model=shape), 30)
    made = Optimizers(model, OptimConfig(name="muon")).all
    names = {id(p): n for n, p in model.named_parameters()}
    owned = {
        key: {names[id(p)] for group in optimizer.param_groups for p in group["params"]}
        for key, optimizer in made.items()
    }
    assert not owned["muon"] & owned["adamw"]
    assert owned["muon"] | owned["adamw"] == set(names.values())
    inside = {n for n in names.values() if "trunk." in n}
    matrices = {n for n in inside if n.endswith(".weight") and "norm" not in n and "conv" not in n}
    assert owned["muon"] == matrices
    assert len(matrices) >= 4 * (2 + anchor_blocks)


@pytest.mark.parametrize(
    ("asked", "fast", "turned"),
    [
        ("bf16", True, torch.bfloat16),
        ("bf16", False, None),
        ("fp32", True, None),
        ("fp32", False, None),
    ],
)
def test_muon_turns_in_bf16_where_the_run_has_it_and_it_is_fast(asked, fast, turned, monkeypatch):
    monkeypatch.setattr(devices, "fast_bf16", lambda device: fast)
    model = build_model(Config(model=ModelConfig(width=16, blocks=1, heads=2)), 30)
    assert Optimizers(model, OptimConfig(name="muon"), asked).all["muon"].dtype == turned


def test_one_slow_process_lets_all_turn_in_fp32(monkeypatch):
    monkeypatch.setattr(devices, "fast_bf16", lambda device: True)
    monkeypatch.setattr(World, "most", lambda world, slow: 1)  # another one's answer
    assert turning("bf16", torch.device("cpu")) == "fp32"


@pytest.mark.parametrize("then", [True, False])
def test_moments_of_a_fast_machine_are_taken_on_a_slow_one(then, monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "fast_bf16", lambda device: then)
    model = build_model(Config(model=ModelConfig(width=16, blocks=1, heads=2)), 30)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = Optimizers(model, OptimConfig(name="muon"), "bf16")
    before.step(0, 10)
    monkeypatch.setattr(devices, "fast_bf16", lambda device: not then)
    after = Optimizers(model, OptimConfig(name="muon"), "bf16")
    after.load(before.state(), tmp_path)
    assert after.state().keys() == before.state().keys()
    assert all(torch.equal(value, after.state()[name]) for name, value in before.state().items())


def test_adamw_alone_has_everything():
    model = build_model(Config(model=ModelConfig(width=16, blocks=1, heads=2)), 30)
    made = Optimizers(model, OptimConfig(name="adamw")).all
    assert list(made) == ["adamw"]
    held = sum(p.numel() for g in made["adamw"].param_groups for p in g["params"])
    assert held == sum(p.numel() for p in model.parameters())


def test_weight_decay_spares_vectors():
    model = build_model(Config(model=ModelConfig(width=16, blocks=1, heads=2)), 30)
    groups = (
        Optimizers(model, OptimConfig(name="adamw", weight_decay=0.1)).all["adamw"].param_groups
    )
    decayed, plain = groups
    assert decayed["weight_decay"] == 0.1
    assert plain["weight_decay"] == 0
    assert all(isinstance(p, torch.Tensor) and p.ndim == 1 for p in plain["params"])


def test_the_bridge_may_have_a_rate_of_its_own():
    config = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1)
    before, after = Anchored(23, config, causal=False), Anchored(23, config, causal=False)
    after.load_state_dict(before.state_dict())
    settings = OptimConfig(lr=0.1, bridge_lr=0.001, warmup=0, decay="constant")
    optim = Optimizers(after, settings)
    for parameter in after.parameters():
        parameter.grad = torch.ones_like(parameter)
    optim.step(0, 10)
    now = dict(after.named_parameters())
    moved = {name: (p - now[name]).abs().max() for name, p in before.named_parameters()}
    assert moved["bridge.project.weight"].item() == pytest.approx(0.001, rel=1e-4)
    assert moved["bridge.project.bias"].item() == pytest.approx(0.1, rel=1e-4)
    assert moved["anchor_head.weight"].item() == pytest.approx(0.1, rel=1e-4)
