"""The anchored model: folding is exact, counts are the published ones, controls match."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import pytest
import torch

from adlm.config import Config, ModelConfig, OptimConfig
from adlm.models.anchored import Anchored, LiteralBridge
from adlm.models.cost import parameters
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.recipes import recipe
from adlm.train.optim import Optimizers

BRIDGES = ["linear", "softmax", "embedding", "hidden"]


def model(bridge: str, residual: bool = False, causal: bool = False) -> Anchored:
    config = ModelConfig(
        width=16, blocks=1, heads=2, conv=3, anchor_blocks=2, bridge=bridge, residual=residual
    )
    torch.manual_seed(0)
    made = Anchored(23, config, causal, max_length=16).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def written_out(net: Anchored) -> Anchored:
    """The same weights with the bridge as the paper writes it."""
    twin = copy.copy(net)
    twin._modules = {**net._modules, "bridge": LiteralBridge(net.anchor_head, net.head.in_features)}
    twin.bridge.project = net.bridge.project
    return twin


def tokens() -> torch.Tensor:
    return torch.randint(0, 23, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_folded_equals_literal_in_outputs_and_all_gradients(residual, causal):
    net, x = model("linear", residual, causal), tokens()
    found = []
    for literal in (False, True):
        net.zero_grad()
        states = (written_out(net) if literal else net)(x)
        out = torch.cat((net.head(states.denoiser), net.anchor_head(states.anchor)))
        out.square().sum().backward()
        found.append((out.detach(), {n: p.grad.clone() for n, p in net.named_parameters()}))
    (out, grads), (out_literal, grads_literal) = found
    assert (out - out_literal).abs().max() <= 1e-9 * out_literal.abs().max()
    for name, gradient in grads.items():
        scale = grads_literal[name].abs().max()
        assert scale > 0, name
        assert (gradient - grads_literal[name]).abs().max() <= 1e-9 * scale, name


def test_the_fold_is_kept_for_inference_and_follows_the_weights():
    net, x = model("linear"), tokens()
    with torch.no_grad():
        first = net(x).denoiser
        kept = net.bridge._kept
        assert torch.equal(net(x).denoiser, first)
        assert net.bridge._kept is kept
        net.anchor_head.weight.mul_(1.5)
        changed = net(x).denoiser
        assert not torch.allclose(changed, first)
        assert torch.allclose(changed, written_out(net)(x).denoiser, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["anchor_head.weight", "anchor_head.bias", "bridge.project.weight"]
)
def test_the_kept_fold_sees_weights_written_past_autograd(name):
    """`.data` leaves no version behind; one changed number, or two exchanged rows, are seen."""
    net, x = model("linear"), tokens()
    weight = net.get_parameter(name)
    with torch.no_grad():
        for change in (
            lambda data: data.mul_(1.5),
            lambda data: data.view(-1)[5].add_(1e-3),
            lambda data: data.copy_(data.flip(0)),
        ):
            net(x)
            change(weight.data)
            assert torch.allclose(net(x).denoiser, written_out(net)(x).denoiser, rtol=1e-9)
        net.float()
        assert torch.allclose(net(x).denoiser, written_out(net)(x).denoiser, atol=1e-3)


def test_the_kept_fold_never_outlives_a_step_of_the_optimiser():
    """A fused AdamW changes weights in place without a new version number."""
    net, x = model("linear").float(), tokens()
    optim = Optimizers(net, OptimConfig(lr=0.1, warmup=0))
    for step in range(3):
        with torch.no_grad():
            assert torch.allclose(net(x).denoiser, written_out(net)(x).denoiser, atol=1e-4)
        net.head(net(x).denoiser).square().mean().backward()
        optim.step(step, 10)


@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("residual", [False, True])
def test_cached_decoding_equals_a_full_pass(bridge, residual):
    net, x = model(bridge, residual, causal=True), tokens()
    cache = net.new_cache()
    parts = [net(x[:, i : i + 1], Context(cache=cache)).denoiser for i in range(x.shape[1])]
    assert torch.allclose(torch.cat(parts, dim=1), net(x).denoiser, atol=1e-10)


@pytest.mark.parametrize("bridge", BRIDGES)
def test_padding_changes_nothing(bridge):
    net, x = model(bridge), tokens()
    segment = torch.where(torch.arange(9) < 6, 0, -1).expand(3, -1)
    assert torch.allclose(
        net(x, Context(Layout(False, segment))).denoiser[:, :6], net(x[:, :6]).denoiser, atol=1e-11
    )


def test_the_published_model_has_the_published_number_of_parameters():
    assert parameters(recipe("owt-mdlm"), 50258) == 169_627_218
    assert parameters(recipe("owt-adlm"), 50258) == 293_189_028


@pytest.mark.parametrize("bridge", BRIDGES)
def test_with_a_residual_path_the_anchored_model_starts_as_the_plain_one(bridge):
    """Only the embedding bridge, which has no weights to be zero, hands something on at once."""
    torch.manual_seed(0)
    config = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=2, bridge=bridge, residual=True)
    net = Anchored(23, config, causal=False, max_length=16)
    plain = Denoiser(23, replace(config, blocks=3, anchor_blocks=0), False, 16)
    own = dict(net.state_dict())
    weights = {}
    for name in plain.state_dict():
        moved = re.sub(r"trunk\.blocks\.([01])\.", r"anchor_trunk.blocks.\1.", name)
        weights[name] = own[moved.replace("trunk.blocks.2.", "trunk.blocks.0.")]
    plain.load_state_dict(weights)
    same = torch.allclose(net(tokens()).denoiser, plain(tokens()).denoiser, atol=1e-6)
    assert same == (bridge != "embedding")


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_wanted_states_are_those_of_all_and_the_stream_stays_wide(bridge, residual):
    shape = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1, bridge=bridge)
    net = Anchored(23, replace(shape, residual=residual), causal=False, max_length=16)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    wanted = tokens() % 2 == 0
    every, some = net(tokens()), net(tokens(), Context(wanted=wanted))
    assert torch.allclose(some.denoiser, every.denoiser[wanted], atol=1e-5)
    assert torch.equal(some.anchor, every.anchor)
    kinds = []
    net.trunk.blocks[0].register_forward_pre_hook(lambda _, given: kinds.append(given[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        net(tokens())
    assert kinds == [torch.float32]


def test_a_shared_anchor_head_is_the_input_embedding():
    config = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1, bridge="embedding")
    apart, shared = (parameters(replace_model(config, s), 23) for s in (False, True))
    assert apart - shared == 23 * 16
    net = Anchored(23, replace(config, shared=True), causal=False)
    assert net.anchor_head.weight is net.embed.weight


def replace_model(config: ModelConfig, shared: bool) -> Config:
    return Config(objective="adlm", model=replace(config, shared=shared))


def test_a_plain_configuration_builds_a_plain_model():
    with torch.device("meta"):
        from adlm.models.build import build_model

        assert not isinstance(build_model(Config(), 30), Anchored)
