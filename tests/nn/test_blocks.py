"""The layout of block diffusion: one mask over [z ; x], and the same with remembered blocks."""

from __future__ import annotations

import pytest
import torch

from adlm.nn.blocks import BlockLayout
from adlm.nn.cache import Cache
from adlm.nn.config import TrunkConfig
from adlm.nn.layout import Layout
from adlm.nn.transformer import Trunk

DIT = TrunkConfig(width=16, blocks=2, heads=2, time=8)
CONV = TrunkConfig(width=16, blocks=3, heads=2, conv=5, qk_norm=True)
LEARNED = TrunkConfig(width=16, blocks=2, heads=2, positions="learned")
SHAPES = pytest.mark.parametrize("shape", [DIT, CONV, LEARNED], ids=["dit", "conv", "learned"])


def trunk(shape: TrunkConfig, length: int = 16) -> Trunk:
    torch.manual_seed(0)
    made = Trunk(shape, causal=False, max_length=length).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def vectors(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, length, 16, dtype=torch.float64, generator=generator)


def halves(net: Trunk, z: torch.Tensor, x: torch.Tensor, **layout) -> torch.Tensor:
    """States of the noisy half of [z ; x]."""
    out = net(torch.cat((z, x), dim=1), BlockLayout(paired=True, **layout))
    return out[:, : z.shape[1]]


@SHAPES
@pytest.mark.parametrize("block", [1, 2, 4, 8])
def test_one_pass_over_both_halves_is_a_pass_for_each_block_after_its_clean_prefix(shape, block):
    net, z, x = trunk(shape), vectors(2, 8), vectors(2, 8, seed=2)
    together = halves(net, z, x, block=block)
    for low in range(0, 8, block):
        seen = torch.cat((x[:, :low], z[:, low : low + block]), dim=1)
        alone = net(seen, BlockLayout(block=block))[:, low:]
        assert torch.allclose(together[:, low : low + block], alone, atol=1e-12)


@SHAPES
def test_one_block_as_long_as_the_row_is_the_whole_row(shape):
    net, z, x = trunk(shape), vectors(2, 8), vectors(2, 8, seed=2)
    assert torch.allclose(halves(net, z, x, block=8), net(z, Layout(causal=False)), atol=1e-12)


@SHAPES
def test_a_block_depends_on_itself_and_the_clean_blocks_before_it_alone(shape):
    net = trunk(shape)
    z, x = vectors(1, 8).requires_grad_(), vectors(1, 8, seed=2).requires_grad_()
    halves(net, z, x, block=2)[:, 4:6].sum().backward()
    assert z.grad is not None
    assert x.grad is not None
    assert z.grad[0].abs().sum(dim=1).gt(0).tolist() == [False] * 4 + [True] * 2 + [False] * 2
    assert x.grad[0].abs().sum(dim=1).gt(0).tolist() == [True] * 4 + [False] * 4


@SHAPES
def test_remembered_blocks_give_the_states_of_the_whole_pass(shape):
    net, z, x = trunk(shape), vectors(2, 8), vectors(2, 8, seed=2)
    together, cache, layout = (
        halves(net, z, x, block=2),
        Cache.empty(net.depth),
        BlockLayout(block=2),
    )
    for low in range(0, 8, 2):
        shown = net(z[:, low : low + 2], layout, cache=cache.select())
        assert torch.allclose(shown, together[:, low : low + 2], atol=1e-12)
        net(x[:, low : low + 2], layout, cache=cache)


@SHAPES
def test_several_blocks_may_be_remembered_at_once(shape):
    net, x = trunk(shape), vectors(2, 8)
    layout, one, many = BlockLayout(block=2), Cache.empty(net.depth), Cache.empty(net.depth)
    for low in range(0, 6, 2):
        net(x[:, low : low + 2], layout, cache=one)
    net(x[:, :2], layout, cache=many)
    net(x[:, 2:6], layout, cache=many)
    last = x[:, 6:]
    assert torch.allclose(net(last, layout, cache=one), net(last, layout, cache=many), atol=1e-12)


@pytest.mark.parametrize("shape", [DIT, CONV], ids=["dit", "conv"])
def test_beyond_the_trained_row_a_window_moves_along(shape):
    """Keys that left the window are forgotten; the mask of the whole pass says the same."""
    net, x = trunk(shape, length=8), vectors(2, 24)
    layout = BlockLayout(block=2, window=8)
    whole, cache = net(x, layout), Cache.empty(net.depth)
    for low in range(0, 24, 2):
        here = net(x[:, low : low + 2], layout, cache=cache)
        assert torch.allclose(here, whole[:, low : low + 2], atol=1e-12)
        cache.forget(6)
    assert cache.kept == 6


@SHAPES
@pytest.mark.parametrize("block", [2, 4])
def test_padding_and_packing_neighbours_change_nothing(shape, block):
    net, z, x = trunk(shape), vectors(1, 8), vectors(1, 8, seed=2)
    segment = torch.tensor([[0, 0, 0, 1, 1, 1, -1, -1]])
    packed = halves(net, z, x, block=block, segment=segment)
    other = torch.tensor([[1.0] * 3 + [0.0] * 3 + [1.0] * 2])[..., None].double()
    for change in (other, 1 - other):
        moved = halves(net, z + change, x - change, block=block, segment=segment)
        same = change[0, :, 0] == 0
        assert torch.allclose(moved[:, same], packed[:, same], atol=1e-12)


def test_rows_of_a_memory_are_rows_of_a_pass():
    net, x = trunk(CONV), vectors(3, 6)
    cache, layout = Cache.empty(net.depth), BlockLayout(block=2)
    net(x[:, :4], layout, cache=cache)
    some = torch.tensor([2, 0])
    picked = net(x[some, 4:], layout, cache=cache.select(some))
    assert torch.allclose(picked, net(x, layout)[some, 4:], atol=1e-12)
    assert cache.kept == 4


def test_the_mask_is_made_once():
    layout = BlockLayout(block=4, paired=True)
    assert layout.mask(32) is layout.mask(32)
