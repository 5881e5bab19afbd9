"""What may change a prediction, and what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.config import Config, ModelConfig
from adlm.models.cost import parameters
from adlm.models.denoiser import Denoiser
from adlm.nn import rotary
from adlm.nn.block import gelu_linear, norm_linear
from adlm.nn.cache import Cache
from adlm.nn.config import TrunkConfig
from adlm.nn.context import Context
from adlm.nn.layout import Layout

SHAPE = TrunkConfig(width=16, blocks=3, heads=2, conv=5, qk_norm=True)


def model(causal: bool, cfg: TrunkConfig = SHAPE) -> Denoiser:
    torch.manual_seed(0)
    made = Denoiser(20, cfg, causal, max_length=32).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def tokens(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, 20, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("time", [0, 8])
def test_batch_of_n_is_n_singles(causal, time):
    net = model(causal, TrunkConfig(width=16, blocks=2, heads=2, conv=3, time=time))
    x = tokens(4, 9)
    sigma = torch.rand(4).double() if time else None
    together = net.logits(x, Context(sigma=sigma))
    for i in range(4):
        alone = net.logits(x[i : i + 1], Context(sigma=None if sigma is None else sigma[i : i + 1]))
        assert torch.allclose(together[i], alone[0], atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_padding_changes_nothing(causal):
    net, x = model(causal), tokens(2, 8)
    padded = torch.cat((x, tokens(2, 4, seed=2)), dim=1)
    segment = torch.where(torch.arange(12) < 8, 0, -1).expand(2, -1)
    assert torch.allclose(
        net.logits(padded, Context(Layout(causal, segment)))[:, :8], net.logits(x), atol=1e-12
    )


@pytest.mark.parametrize("causal", [True, False])
def test_packing_neighbours_change_nothing(causal):
    net, x = model(causal), tokens(1, 10)
    segment = torch.tensor([[0] * 4 + [1] * 6])
    packed = net.logits(x, Context(Layout(causal, segment)))
    # rotary positions are relative, so a document reads the same wherever it starts
    assert torch.allclose(packed[:, :4], net.logits(x[:, :4]), atol=1e-10)
    assert torch.allclose(packed[:, 4:], net.logits(x[:, 4:]), atol=1e-10)


def test_causal_never_looks_ahead_and_bidirectional_does():
    x = tokens(1, 8)
    changed = x.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 20
    causal, free = model(True), model(False)
    assert torch.equal(causal.logits(x)[:, :5], causal.logits(changed)[:, :5])
    assert not torch.allclose(causal.logits(x)[:, 5:], causal.logits(changed)[:, 5:])
    assert not torch.allclose(free.logits(x)[:, :5], free.logits(changed)[:, :5])


@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 1, 3], [9]])
def test_cache_equals_no_cache(chunks):
    net, x = model(True), tokens(3, 9)
    cache, parts, start = Cache.empty(SHAPE.blocks), [], 0
    for size in chunks:
        parts.append(net.logits(x[:, start : start + size], Context(cache=cache)))
        start += size
    assert torch.allclose(torch.cat(parts, dim=1), net.logits(x), atol=1e-10)


def test_published_dit_has_the_published_number_of_parameters():
    dit = ModelConfig(width=768, blocks=12, heads=12, time=128)
    assert parameters(Config(model=dit), 50258) == 169_627_218


def test_a_fresh_model_predicts_every_token_alike():
    for time in (0, 8):
        net = Denoiser(20, TrunkConfig(width=16, blocks=2, heads=2, conv=3, time=time), False)
        assert (net.logits(tokens(2, 5)) == 0).all()


@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_made_again_in_backward_has_the_same_gradients(bias):
    torch.manual_seed(0)
    norm, linear = torch.nn.LayerNorm(6, bias=bias).double(), torch.nn.Linear(6, 4, bias).double()
    for parameter in (*norm.parameters(), *linear.parameters()):
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(norm_linear(x, norm, linear), linear(norm(x)), rtol=1e-12)
    tensors = (x, *norm.parameters(), *linear.parameters())
    assert torch.autograd.gradcheck(lambda *_: norm_linear(x, norm, linear), tensors)


def test_a_gelu_made_again_in_backward_has_the_same_gradients():
    torch.manual_seed(0)
    linear = torch.nn.Linear(6, 4).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *_: gelu_linear(x, linear), (x, linear.weight, linear.bias)
    )


@pytest.mark.parametrize("bf16", [False, True])
def test_training_equals_inference_and_compiled_equals_eager_in_outputs_and_gradients(bf16):
    torch.manual_seed(0)
    net = Denoiser(20, TrunkConfig(width=16, blocks=1, heads=2, conv=3, qk_norm=True), False)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x, found = tokens(2, 8), []
    for compiled in (False, True):
        net.zero_grad()
        if compiled:  # in fp32 to machine code, which takes long; in bf16 what is traced alone
            net.trunk.compile(backend="aot_eager" if bf16 else "inductor")
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = net.logits(x)
            with torch.no_grad():
                assert torch.allclose(out, net.logits(x), atol=0.1 if bf16 else 1e-5)
        out.float().square().mean().backward()
        found.append([out.detach(), *(p.grad.clone() for p in net.parameters())])
    for eager, traced in zip(*found, strict=True):
        scale = eager.abs().max()
        assert (eager - traced).abs().max() <= (0.1 if bf16 else 1e-4) * scale


@pytest.mark.parametrize("time", [0, 8])
@pytest.mark.parametrize("share", [0.5, 0.0])
def test_only_the_wanted_states_are_the_same_states_with_the_same_gradients(time, share):
    net = model(False, TrunkConfig(width=16, blocks=2, heads=2, conv=3, time=time))
    x, sigma = tokens(4, 9), torch.rand(4).double() if time else None
    wanted = torch.rand(4, 9, generator=torch.Generator().manual_seed(0)) < share
    found = []
    whole = net(x, Context(sigma=sigma)).denoiser[wanted]
    for states in (whole, net(x, Context(sigma=sigma, wanted=wanted)).denoiser):
        net.zero_grad()
        states.square().sum().backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
        found.append([states, *grads])
    for whole, part in zip(*found, strict=True):
        assert torch.allclose(whole, part, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_noise_level_for_each_position_is_that_of_the_row_where_they_agree(share):
    net = model(False, TrunkConfig(width=16, blocks=2, heads=2, conv=3, time=8))
    x, sigma = tokens(4, 9), torch.rand(4).double()
    wanted = torch.rand(4, 9, generator=torch.Generator().manual_seed(0)) < share
    row, each = (
        net(x, Context(sigma=level, wanted=wanted)).denoiser
        for level in (sigma, sigma[:, None].expand(4, 9))
    )
    assert torch.allclose(row, each, atol=1e-12)
    other = sigma[:, None].repeat(1, 9)
    other[:, 4] += 1
    assert not torch.allclose(net(x, Context(sigma=other, wanted=wanted)).denoiser, row)


def test_wanted_states_of_a_compiled_trunk_whatever_their_number():
    net = model(False, replace(SHAPE, blocks=2)).float()  # the last block has the wanted alone
    x = tokens(4, 9)
    eager = net(x).denoiser
    net.trunk.compile(backend="aot_eager")  # what is traced, for shapes that change
    for seed in range(3):
        wanted = torch.rand(4, 9, generator=torch.Generator().manual_seed(seed)) < 0.5
        found = net(x, Context(wanted=wanted)).denoiser
        assert torch.allclose(found, eager[wanted], atol=1e-4)
        grads = [
            torch.autograd.grad(h.square().mean(), net.embed.weight, retain_graph=h is not found)[0]
            for h in (found, eager[wanted])
        ]
        assert torch.allclose(*grads, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_a_rotation_in_parts_is_the_rotation_and_turns_gradients_back(monkeypatch, rows):
    monkeypatch.setattr(rotary, "CHUNK_ELEMENTS", rows * 5 * 2 * 8)
    cos, sin = (t.double()[:, None] for t in rotary.angles(5, 8))  # each (5, 1, 4)
    x = torch.randn(7, 5, 2, 8, dtype=torch.float64, requires_grad=True)
    a, b = x.chunk(2, dim=-1)
    plain = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    assert torch.allclose(rotary.rotate(x, cos, sin), plain, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda x: rotary.rotate(x, cos, sin), x)


def test_a_block_keeps_little_for_its_backward_pass():
    """The stream three times (two norms and the last), q, k, v, what attention says, inner x 4."""
    kept: dict[int, int] = {}
    net = Denoiser(20, TrunkConfig(width=64, blocks=1, heads=2), False)
    fixed = (*net.parameters(), *net.buffers())
    weights = {p.untyped_storage().data_ptr() for p in fixed}

    def note(x: torch.Tensor) -> torch.Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        h = net(tokens(4, 32)).denoiser
    assert h.requires_grad
    activations = sum(size for where, size in kept.items() if where not in weights)
    floats = activations / 4 / (4 * 32 * 64)  # for each token and channel
    assert 11 <= floats < 11.5
