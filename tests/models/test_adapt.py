"""A checkpoint starts another training: what it computes at step 0, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import adlm
from adlm.config import AnchorConfig, BaseConfig, Config, ModelConfig, from_dict
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.adapt import based, begin, open_base, reach
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.ar import shift_right
from adlm.objectives.likelihood import evaluator, score
from adlm.train.run import train
from adlm.values import read_plain
from tests.conftest import make_config, small_corpus

ANCHORED = {"mdlm": "adlm", "ar": "a2r"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short runs of AR and MDLM, whose weights differ from their initialisation."""
    home = tmp_path_factory.mktemp("bases")
    corpus = small_corpus(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        for objective in ("ar", "mdlm"):
            train(make_config(corpus, objective), home / objective)
    return home


def recipe(runs: Path, objective: str, **train: object) -> Config:
    """A recipe of another shape and tokenizer than the bases', which take over both."""
    config = make_config(runs / "corpus.txt", objective, **train)
    other = ModelConfig(width=32, blocks=4, heads=4)
    if objective in ("adlm", "a2r"):
        other = replace(other, anchor_blocks=2, blocks=2)
    data = replace(config.data, tokenizer="bpe:300")
    return replace(config, model=other, data=data, anchor=AnchorConfig(gamma=0.1))


def started(runs: Path, base: str, objective: str, **model: object) -> tuple[Config, Denoiser]:
    """The network at step 0."""
    opened = open_base(str(runs / base))
    config = based(recipe(runs, objective), opened)
    config = replace(config, model=replace(config.model, **model))
    made = build_model(config, opened.vocab.size).eval()
    begin(made, config, opened)
    return config, made


def nats(config: Config, model: Denoiser, runs: Path) -> float:
    vocab = open_base(str(runs / "mdlm")).vocab
    rows = open_rows(config.data, "test", vocab)
    return score(model, evaluator(config, vocab), rows, np.arange(8), draws=2, quiet=True).nll


@pytest.mark.parametrize("base", ["mdlm", "ar"])
@pytest.mark.parametrize("bridge", ["linear", "hidden"])
def test_an_anchored_model_starts_as_its_base(runs: Path, base: str, bridge: str) -> None:
    config, model = started(runs, base, ANCHORED[base], bridge=bridge)
    saved = adlm.load(runs / base, "cpu")
    assert (config.model.anchor_blocks, config.model.blocks) == (1, 1)
    right = nats(replace(saved.config, data=config.data), saved.network, runs)
    assert nats(config, model, runs) == pytest.approx(right, abs=1e-6)


def test_without_the_residual_stream_it_does_not(runs: Path) -> None:
    config, model = started(runs, "mdlm", "adlm", residual=False)
    saved = adlm.load(runs / "mdlm", "cpu")
    assert nats(config, model, runs) != pytest.approx(nats(saved.config, saved.network, runs))


def test_block_diffusion_has_the_same_tensors(runs: Path) -> None:
    _, model = started(runs, "mdlm", "bd3lm")
    saved = adlm.load(runs / "mdlm", "cpu").network.state_dict()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("objective", ["mdlm", "adlm"])
def test_a_causal_base_whose_attention_is_still_closed_predicts_as_before(
    runs: Path, objective: str
) -> None:
    """Shifted by one, and with nothing seen ahead, position l of a clean row tells AR's token l."""
    _, model = started(runs, "ar", objective)
    causal = adlm.load(runs / "ar", "cpu")
    x = torch.randint(0, 256, (2, 16), generator=torch.Generator().manual_seed(0))
    seen = shift_right(x, None, causal.vocab.bos)
    model.reach = 0
    with torch.no_grad():
        before, after = causal.network.logits(seen), model.logits(x)
        model.reach = None
        opened = model.logits(x)
    assert torch.allclose(before, after, atol=1e-5)
    assert not torch.allclose(before, opened, atol=1e-3)


def test_a_position_sees_no_farther_than_its_reach() -> None:
    layout = Layout(causal=False, reach=1)
    right = [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    segment = torch.zeros(1, 4, dtype=torch.long)
    for one in (layout, replace(layout, segment=segment)):
        mask = one.mask(4)
        assert mask is not None
        assert mask[0, 0].int().tolist() == right
    x = torch.ones(1, 4, 1)
    taps = [tap.sum().item() for tap in layout.neighbours(x, range(-2, 3))]
    assert taps == [0, 3, 4, 3, 2]  # two ahead is too far


def test_shifted_padding_is_not_seen(runs: Path) -> None:
    _, model = started(runs, "ar", "mdlm")
    x = torch.randint(0, 256, (1, 16), generator=torch.Generator().manual_seed(1))
    valid = torch.arange(16)[None] < 10
    layout = Layout(False, torch.where(valid, 0, -1))
    wanted = valid & (torch.arange(16) % 2 == 0)
    with torch.no_grad():
        short = model.logits(x[:, :10])
        padded = model.logits(x, Context(layout))
        some = model.logits(x, Context(layout, wanted=wanted))
    assert torch.allclose(short, padded[:, :10], atol=1e-5)
    assert torch.allclose(padded[wanted], some, atol=1e-5)


def test_attention_opens_with_the_training() -> None:
    config = Config(base=BaseConfig(anneal=0.25))
    assert [reach(config, p) for p in (0, 0.125, 0.25, 1)] == [0, 32, None, None]
    assert reach(Config(), 0.0) is None


@pytest.mark.parametrize(("base", "objective"), [("mdlm", "mdlm"), ("ar", "mdlm"), ("ar", "adlm")])
def test_a_run_on_a_base_goes_on_without_it(
    runs: Path, tmp_path: Path, base: str, objective: str
) -> None:
    """Stopped and resumed after its base is gone, it ends in the same bits."""
    copy = tmp_path / "base"
    checkpoint.find(runs / base).parent.parent.rename(copy)
    try:
        whole = based(recipe(runs, objective, steps=6, save_every=3), open_base(str(copy)))
        whole = replace(whole, base=replace(whole.base, anneal=0.5 * whole.model.shift))
        assert whole.data.tokenizer == "byte"
        assert train(whole, tmp_path / "run") == 0
    finally:
        copy.rename(runs / base)
    run = tmp_path / "run"
    last = checkpoint.steps(run)[-1]
    right = checkpoint.load(last).weights()
    for path in sorted(last.iterdir()):
        path.unlink()
    last.rmdir()
    stored = from_dict(read_plain(run / "config.json"))
    assert stored.base.name == str(copy)
    assert train(stored, run, resume=True) == 0
    found = checkpoint.load(run).weights()
    assert all(torch.equal(found[name], tensor) for name, tensor in right.items())


def test_the_first_validation_on_a_base_is_better_than_from_scratch(
    runs: Path, tmp_path: Path
) -> None:
    config = based(recipe(runs, "mdlm", steps=1), open_base(str(runs / "mdlm")))
    train(config, tmp_path / "on")
    train(replace(config, base=BaseConfig()), tmp_path / "new")
    on, new = (nats(config, adlm.load(tmp_path / n, "cpu").network, runs) for n in ("on", "new"))
    assert on < new - 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"width": 32}}, "model.width is 32, and the base .* needs 16"),
        ({"model": {"blocks": 3}}, "model.blocks is 3, and the base .* needs 2"),
        ({"data": {"tokenizer": "gpt2"}}, "data.tokenizer is gpt2, .* is byte"),
        ({"base": {"anneal": 0.5}}, "base.anneal opens the attention of a causal base"),
    ],
)
def test_what_is_not_the_bases_is_one_sentence(
    runs: Path, tmp_path: Path, changes: dict, said: str
) -> None:
    config = based(recipe(runs, "mdlm"), open_base(str(runs / "mdlm")))
    parts = {k: replace(getattr(config, k), **v) for k, v in changes.items()}
    with pytest.raises(UserError, match=said):
        train(replace(config, **parts), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_base_cannot_become_is_one_sentence(runs: Path) -> None:
    with pytest.raises(UserError, match="is a model of mdlm: it cannot become ar"):
        based(recipe(runs, "ar"), open_base(str(runs / "mdlm")))
    with pytest.raises(UserError, match="there is no"):
        open_base(str(runs / "nowhere"))


def test_on_the_command_line(runs: Path, tmp_path: Path, adlm_cli) -> None:
    words = ["--data", runs / "corpus.txt", "--train.steps", 2, "--train.batch", 4]
    words += ["--data.length", 16, "--train.eval_rows", 4, "--train.save_every", 0]
    out = tmp_path / "adlm"
    done = adlm_cli("train", "laptop-adlm", "--base", runs / "mdlm", "--out", out, *words)
    assert done.returncode == 0, done.stderr
    assert "the first 1 of its 2 blocks as anchor network" in done.stderr + done.stdout
    refused = adlm_cli(
        "train", "laptop-adlm", "--base", runs / "mdlm", "--out", tmp_path / "x", *words,
        "--model.width", 64,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "model.width is 64" in refused.stderr
    assert not (tmp_path / "x").exists()
    sized = adlm_cli("train", "laptop-mdlm", "--base", runs / "mdlm", "--size", "tiny")
    assert (sized.returncode, "leave out --size" in sized.stderr) == (2, True)
