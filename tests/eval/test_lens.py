"""Anchors under the lens: the figures are right, and damage is damage."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from adlm.cli import main
from adlm.config import AnchorConfig, ModelConfig
from adlm.data.vocab import byte_vocab
from adlm.eval import damage, lens
from adlm.models.anchored import Anchored
from adlm.process.anchors import Anchors
from adlm.train.run import train
from adlm.types import Batch
from tests.conftest import make_config, small_corpus


def tokens(rows: int = 4, length: int = 8) -> Batch:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 20, (rows, length), generator=generator)
    return Batch(x, torch.ones_like(x, dtype=torch.bool))


def network(bridge: str = "linear") -> Anchored:
    torch.manual_seed(0)
    shape = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1, bridge=bridge)
    made = Anchored(258, shape, causal=False).eval()
    torch.nn.init.normal_(made.head.weight, std=0.3)
    return made


def test_a_tally_counts_what_it_should():
    tally = lens.PredictionTally()
    p = torch.tensor([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    tally.add(p.log(), torch.tensor([0, 1, 1]))
    found = tally.figures(torch.tensor([True, True, True]))
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.nats == pytest.approx(-(p[0, 0].log() + p[1, 1].log() + p[2, 1].log()) / 3)
    assert tally.figures(torch.tensor([False] * 3)).accuracy is None


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0])
def test_masking_takes_the_asked_share_of_every_row(ratio):
    batch = tokens()
    batch.valid[0, 4:] = False
    z, hidden = lens.masked(batch, ratio, 257, torch.Generator().manual_seed(1))
    assert hidden.sum(1).tolist() == [max(1, round(4 * ratio)), *[max(1, round(8 * ratio))] * 3]
    assert (z[hidden] == 257).all()
    assert not hidden[~batch.valid].any()


@pytest.mark.parametrize("name", list(damage.DAMAGES))
@pytest.mark.parametrize("bridge", ["linear", "embedding"])
def test_damage_at_zero_changes_nothing_and_at_one_everything(name, bridge):
    net, x = network(bridge), tokens().x
    with torch.no_grad():
        clean = net(x).denoiser
        with damage.damaged(net, name, 0.0, seed=0):
            assert torch.allclose(net(x).denoiser, clean, atol=1e-6)
        with damage.damaged(net, name, 1.0, seed=0):
            assert not torch.allclose(net(x).denoiser, clean, atol=1e-3)
        assert torch.equal(net(x).denoiser, clean), "it is over"


def test_forced_tokens_are_what_the_head_reads():
    """Rows of one length: the likeliest token of a forced state is the token that was drawn."""
    net = network()
    net.anchor_head.weight.data = torch.nn.functional.normalize(net.anchor_head.weight.data, dim=1)
    h = torch.randn(3, 8, 16, generator=torch.Generator().manual_seed(5))
    forced = damage.wrong(h, net.anchor_head, 1.0, torch.Generator().manual_seed(2))
    drawn = torch.randint(258, (3, 8), generator=torch.Generator().manual_seed(2))
    assert torch.equal((forced @ net.anchor_head.weight.T).argmax(dim=-1), drawn)
    assert torch.allclose(forced.norm(dim=-1), h.norm(dim=-1), atol=1e-4)


def test_bands_of_frequency_have_equal_weight():
    x = torch.tensor([[0] * 10 + [1] * 5 + [2] * 3 + [3, 4]])
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    rule = Anchors(AnchorConfig(tau=3), byte_vocab())
    found = lens.Lens([batch], rule, None, 257).bands(count=2)
    assert [b.different_tokens for b in found] == [1, 4]
    assert [b.share_anchors for b in found] == [0.0, 0.5]


def test_an_empty_band_says_so():
    x = torch.tensor([[1, 1, 1, 1, 1, 1, 2, 3]])
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    found = lens.Lens([batch], Anchors(AnchorConfig(), byte_vocab()), None, 257).bands()
    assert None in [b.share_anchors for b in found]


def test_padding_is_not_seen():
    net, batch = network(), tokens()
    batch.valid[:, 5:] = False
    other = Batch(torch.where(batch.valid, batch.x, 3), batch.valid)
    rule = Anchors(AnchorConfig(), byte_vocab())
    a, b = (lens.Lens([x], rule, None, 257).by_ratio({"d": net}, (0.5,)) for x in (batch, other))
    assert a == b


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("lens")
    text = small_corpus(home)
    plain = make_config(text, steps=2)
    shape = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1)
    train(plain, home / "mdlm")
    train(replace(plain, objective="adlm", model=shape), home / "adlm")
    train(replace(plain, objective="ar"), home / "ar")
    return home


def test_the_whole_command(runs, tmp_path, capsys):
    out = tmp_path / "a.json"
    words = ["eval", "anchors", str(runs / "adlm"), "--plain", str(runs / "mdlm"), "--rows", "8"]
    assert main([*words, "--texts", "2", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    networks = {r["network"] for r in result["by_ratio"]}
    assert networks == {"anchor network", "denoiser", "plain model"}
    assert len(result["damage"]) == 24
    same = {d["nll"] for d in result["damage"] if d["dial"] == 0}
    assert len(same) == 1
    assert -1 <= (result["correlation_nll"] or 0) <= 1
    assert out.with_suffix(".png").is_file()
    assert "correlation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("mdlm", "has no anchor network: its objective is mdlm"),
        ("adlm --plain {ar}", "is not a masked diffusion model of the same vocabulary"),
        ("adlm --rows 0", "--rows must be at least 1"),
        ("adlm --texts 1", "--texts must be 0, or from 2 to"),
    ],
)
def test_bad_input_is_one_sentence(runs, words, says, capsys):
    name, *rest = words.format(ar=runs / "ar").split()
    assert main(["eval", "anchors", str(runs / name), *rest]) == 2
    assert says in capsys.readouterr().err
