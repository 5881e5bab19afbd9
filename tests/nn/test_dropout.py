"""Attention weights are dropped only where that is asked for: the published DiT drops none."""

import pytest
import torch

from adlm.nn.block import Attention
from adlm.nn.config import TrunkConfig
from adlm.nn.layout import Layout
from adlm.nn.transformer import Trunk
from adlm.recipes import recipe


def attended(**drop: float) -> list[torch.Tensor]:
    """Twice the same attention, as in training."""
    torch.manual_seed(0)
    net = Attention(TrunkConfig(width=8, heads=2, **drop)).train()
    qkv = torch.randn(2, 16, 24)
    return [net(qkv, None, None, False, None) for _ in range(2)]


def test_attention_has_a_dropout_of_its_own():
    a, b = attended(dropout=0.5)
    assert torch.equal(a, b)
    a, b = attended(attention_dropout=0.5)
    assert not torch.equal(a, b)


def test_the_stream_is_dropped_as_before():
    torch.manual_seed(0)
    net = Trunk(TrunkConfig(width=8, blocks=1, heads=2, dropout=0.5), causal=False).train()
    torch.nn.init.normal_(net.blocks[0].down.weight)
    h = torch.randn(1, 4, 8)
    a, b = (net(h, Layout(False)) for _ in range(2))
    assert not torch.equal(a, b)


@pytest.mark.parametrize("name", ["lm1b-mdlm", "owt-mdlm", "owt-ar", "owt-adlm", "owt-a2r"])
def test_the_papers_recipes_have_the_published_dropout_and_anchors(name):
    config = recipe(name)
    assert (config.model.dropout, config.model.attention_dropout) == (0.1, 0.0)
    assert config.anchor.compat is (config.model.anchor_blocks > 0)
