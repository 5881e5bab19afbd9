"""D3PM, SEDD, UDLM and GIDD, plain and anchored: they train, score and write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import adlm
from adlm import registry
from adlm.budget import predicted
from adlm.cli import main
from adlm.config import Config, ModelConfig, ProcessConfig
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.eval.anchors import AnchorsSettings, measure
from adlm.models.build import build_model
from adlm.models.cost import head_share, training_flops
from adlm.models.size import match
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator
from adlm.process.kernel import times
from adlm.recipes import recipe
from adlm.samplers import template
from adlm.samplers.choice import samplers_for
from adlm.train.run import train
from adlm.types import Batch
from tests.conftest import make_config, small_corpus

NAMES = ["d3pm", "sedd", "sedd-uniform", "udlm", "gidd"]
VOCAB = byte_vocab()


def small(corpus: Path | str, name: str, anchored: bool = False) -> Config:
    """The laptop recipe's objective and process, on a network that trains in a second."""
    base, wanted = make_config(corpus, steps=4), recipe(f"laptop-{name}")
    front = 1 if anchored else 0
    model = replace(base.model, time=8, anchor_blocks=front)
    objective = f"adlm-{wanted.objective}" if anchored else wanted.objective
    anchor = replace(base.anchor, gamma=0.1, warmup=0.0, positions="all")
    return replace(base, objective=objective, process=wanted.process, model=model, anchor=anchor)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    corpus = small_corpus(home)
    for name in NAMES:
        train(small(corpus, name), home / name)
    train(small(corpus, "gidd", anchored=True), home / "anchored")
    return home


@pytest.mark.parametrize("name", [*NAMES, "anchored"])
def test_a_run_is_scored_by_its_bound_and_writes_around_what_is_given(runs, name):
    model = adlm.load(runs / name)
    scored = evaluator(model.config, model.vocab)
    assert scored.bound
    assert (
        model.config.process.weight == "bound"
        or not make_objective(model.config, model.vocab).bound
    )
    assert np.isfinite(model.nll(["the law of the sea"], draws=2)).all()
    for sampler in samplers_for(model.config):
        texts = model.generate(n=2, prompt="the ", length=12, steps=4, sampler=sampler)
        assert all(t.startswith("the ") for t in texts)
        holes = template.holes("the [MASK:3] of", model.vocab)
        made = model.write(holes, adlm.api.settings(n=2, steps=3, sampler=sampler)).tokens
        assert (made != model.vocab.mask).all()
        assert (made[:, holes != model.vocab.mask] == holes[holes != model.vocab.mask]).all()


@pytest.mark.parametrize("name", ["udlm", "gidd"])
def test_a_record_ends_with_the_text_though_noise_was_there_before(runs, name):
    model = adlm.load(runs / name)
    given = template.after("the ", 10, model.vocab)
    made, trace = model.record(given, adlm.api.settings(n=2, steps=3))
    for row, tokens in enumerate(made.tokens):
        assert (trace.tokens(row) == tokens).all()
    first = trace.tokens(0, step=0)
    assert (first[4:] == model.vocab.mask).all() == (name == "gidd")


def test_a_sampler_that_cannot_serve_is_one_sentence(runs):
    for name, sampler in (("udlm", "ancestral"), ("sedd", "posterior"), ("d3pm", "self-correct")):
        with pytest.raises(UserError, match=f"cannot be sampled by '{sampler}'; it has"):
            adlm.load(runs / name).generate(sampler=sampler)


def test_the_command_reports_the_bound(runs, capsys):
    assert main(["eval", "likelihood", str(runs / "udlm"), "--limit", "4", "--split", "valid"]) == 0
    assert "≤" in capsys.readouterr().out


def test_anchors_of_a_model_that_sees_the_noise_level_are_looked_at(runs):
    settings = AnchorsSettings(rows=4, draws=1, texts=0, judge="none", plain=str(runs / "gidd"))
    found = measure(str(runs / "anchored"), settings)
    assert {f.network for f in found.by_ratio} == {"anchor network", "denoiser", "plain model"}
    assert all(np.isfinite(d.nll) for d in found.damage)


@pytest.mark.parametrize(
    ("objective", "process", "says"),
    [
        ("d3pm", {"steps": 0}, "process.steps must be at least 1, found 0"),
        ("d3pm", {"steps": 5, "remask": 0.1}, "process.remask must be 0, found 0.1"),
        ("gidd", {"kernel": "mixture:1"}, r"a share in \[0, 0.999\], found 1"),
        ("gidd", {"kernel": "mixture:0.9991"}, r"a share in \[0, 0.999\], found 0.9991"),
        ("gidd", {"kernel": "mixture:-0.1"}, r"a share in \[0, 0.999\], found -0.1"),
        ("gidd", {"kernel": "mixture:x"}, "must be mask, uniform or mixture:SHARE"),
        ("gidd", {"kernel": "mask"}, "gidd needs process.kernel mixture, found 'mask'"),
        ("udlm", {"kernel": "mask"}, "udlm needs process.kernel uniform, found 'mask'"),
        ("udlm", {"kernel": "uniform", "conditioned": False}, "sees the noise level"),
        ("udlm", {"kernel": "uniform", "weight": "flat"}, "take bound or clamp:MOST"),
        ("udlm", {"kernel": "uniform", "weight": "dynamic"}, "there is no weight 'dynamic'"),
        ("udlm", {"kernel": "uniform", "steps": 5}, "process.steps and process.remask 0"),
        ("sedd", {"kernel": "uniform"}, "process.schedule must be geometric, found 'log-linear'"),
        ("sedd", {"masking": "exact-k"}, "process.masking must be bernoulli"),
        ("sedd", {"schedule": "geometric:0.01:0.5"}, "leaves 0.61 of a text visible at t = 1"),
        ("gidd", {"kernel": "mixture:0.1", "schedule": "geometric:0.01:0.5"}, "ends at 0"),
        ("d3pm", {"steps": 5, "schedule": "geometric:0.01:0.5"}, "masks must hide all of it"),
        ("mdlm", {"schedule": "geometric:0.01:0.5"}, "masks must hide all of it"),
        ("mdlm", {"kernel": "uniform"}, "process.kernel must be mask, found 'uniform'"),
        ("mdlm", {"kernel": "fog"}, "process.kernel must be mask, found 'fog'"),
        ("mdlm", {"curriculum": 0.5}, "mdlm has no process.curriculum: it must be 0.0, found 0.5"),
        ("sedd", {"curriculum": 0.5}, "sedd has no process.curriculum"),
        ("mdlm", {"clip": (0.3, 0.8)}, r"process.clip: it must be \[0.0, 1.0\], found \[0.3"),
        ("ar", {"kernel": "uniform"}, "ar has no noise: process.kernel must be mask"),
        ("ar", {"steps": 10}, "process.steps 0, found mask and 10"),
        ("adlm-sedd", {}, "needs an anchor network"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(objective, process, says):
    given = {"masking": "bernoulli", "conditioned": True} | process
    config = Config(objective, model=ModelConfig(time=4), process=ProcessConfig(**given))
    with pytest.raises(UserError, match=says):
        make_objective(config, VOCAB)


def test_anchors_under_masks_need_masks():
    config = small("x", "udlm", anchored=True)
    config = replace(config, anchor=replace(config.anchor, positions="masked"))
    with pytest.raises(UserError, match="uniform noise has none: take all"):
        make_objective(config, VOCAB)


def test_softened_tokens_and_stale_anchors_are_not_had_together():
    config = small("x", "duo", anchored=True)
    assert config.process.curriculum
    config = replace(config, anchor=replace(config.anchor, stale=0.3))
    with pytest.raises(UserError, match="one of the two must be 0"):
        make_objective(config, VOCAB)


@pytest.mark.parametrize("name", ["udlm", "gidd", "d3pm", "sedd-uniform"])
@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_caches_in_blocks_are_for_masks_that_stay_unread(runs, name, cache):
    """Block after block, a network would be told a noise level that only masks have."""
    with pytest.raises(UserError, match=f"cache {cache} writes block after block.*delayed"):
        adlm.load(runs / name).generate(cache=cache)
    assert adlm.load(runs / name).generate(length=12, steps=3, cache="delayed")


@pytest.mark.parametrize("name", [*NAMES, "anchored"])
def test_every_command_serves_every_baseline(runs, name, tmp_path):
    run = str(runs / name)
    ptb = tmp_path / "ptb"
    ptb.mkdir()
    (ptb / "ptb.valid.txt").write_text("the law of the sea\nthe sea of the law\n" * 4)
    likelihood, page = str(tmp_path / "likelihood.json"), tmp_path / "page.html"
    for words in (
        ["eval", "likelihood", run, "--limit", "4", "--split", "valid", "--out", likelihood],
        ["eval", "zeroshot", run, "--sets", "[ptb]", "--limit", "2", "--data.dir", str(tmp_path),
         "--out", str(tmp_path / "zeroshot.json")],
        ["eval", "samples", run, "--n", "16", "--steps", "2", "--judge", "none", "--features",
         "minilm", "--out", str(tmp_path / "samples.json")],
        ["sample", run, "-n", "1", "--steps", "2", "--trace", str(tmp_path / "replay.html")],
        ["report", likelihood, str(tmp_path / "samples.json"), "--out", str(page)],
    ):  # fmt: skip
        assert main(words) == 0, words
    assert "≤" in page.read_text()
    assert (tmp_path / "replay.html").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_anchoring_adds_its_loss_and_leaves_the_bound_alone(name):
    torch.manual_seed(0)
    config = small("x", name, anchored=True)
    objective, model = make_objective(config, VOCAB), build_model(config, VOCAB.size)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    x = torch.randint(0, 99, (6, 16))
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    noise = objective.noise(6, 16, torch.Generator().manual_seed(1))
    plain, both = (objective.score(model, batch, noise, anchor) for anchor in (False, True))
    assert torch.equal(plain.rows, both.rows)
    assert plain.anchor is None
    assert torch.isfinite(both.anchor)
    both.anchor.backward()
    assert model.anchor_head.weight.grad.abs().sum() > 0
    assert model.head.weight.grad is None
    assert (
        objective.estimator
        == make_objective(
            replace(config, objective=config.objective.removeprefix("adlm-")), VOCAB
        ).estimator
    )


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_neighbours_change_nothing(name):
    torch.manual_seed(0)
    config = small("x", name)
    objective, model = evaluator(config, VOCAB), build_model(config, VOCAB.size).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    x = torch.randint(0, 99, (3, 12))
    valid = torch.arange(12) < torch.tensor([[12], [7], [3]])
    noise = objective.noise(3, 12, torch.Generator().manual_seed(1))
    noise = replace(noise, t=torch.tensor([0.3, 0.5, 0.7]))
    rows = objective.score(model, Batch(x, valid), noise).rows
    for i in range(3):
        part = slice(i, i + 1)
        alone = objective.score(model, Batch(x, valid)[part], noise[part]).rows
        assert alone.item() == pytest.approx(rows[i].item(), rel=1e-9)
    other = torch.where(valid, x, 5)
    assert torch.allclose(objective.score(model, Batch(other, valid), noise).rows, rows, rtol=1e-12)


def test_duo_is_udlm_with_softened_noise_at_first():
    torch.manual_seed(0)
    config = small("x", "duo")
    objective, model = make_objective(config, VOCAB), build_model(config, VOCAB.size).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    x = torch.randint(0, 99, (6, 16))
    batch = Batch(x, torch.arange(16) < torch.tensor([[16]] * 5 + [[9]]))
    early, late = (
        objective.noise_at(done, 6, 16, torch.Generator().manual_seed(1)) for done in (0.2, 0.7)
    )
    ended = objective.noise_at(config.process.curriculum, 6, 16, torch.Generator().manual_seed(1))
    assert ended.soft is None
    assert late.soft is None
    assert objective.noise(6, 16, torch.Generator().manual_seed(1)).soft is None
    view = objective.view(batch, early)
    assert torch.equal(view.z[~batch.valid], x[~batch.valid])
    assert (view.z != VOCAB.mask).all()
    soft, plain = objective.score(model, batch, early), objective.score(model, batch, late)
    assert torch.isfinite(soft.rows).all()
    soft.bound.backward()
    assert model.embed.weight.grad.abs().sum() > 0
    # nearly no temperature: the mixture is its first token
    objective.gaussian = replace(objective.gaussian, tau=1e-12)
    hard = objective.view(batch, early)
    shown = objective.states(model, hard).denoiser
    bare = model(hard.z, replace(hard.context, wanted=hard.wanted)).denoiser
    assert torch.allclose(shown, bare, atol=1e-9)
    assert torch.isfinite(plain.bound)
    assert evaluator(config, VOCAB).bound


def test_softened_noise_counts_by_how_fast_the_kernels_time_goes():
    config = small("x", "duo")
    plain = replace(config.process, weight="bound", times="stratified")
    objective = make_objective(replace(config, process=plain), VOCAB)
    x = torch.randint(0, 99, (6, 16))
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    noise = objective.noise_at(0.2, 6, 16, torch.Generator().manual_seed(1))
    view, v, h = objective.view(batch, noise), times(noise.t), 1e-5

    def t(v):
        return objective.kernel.schedule.t_of_alpha(objective.gaussian.alpha(v)[0])

    slope = (t(v + h) - t(v - h)) / (2 * h)
    at = t(v)[:, None]
    right = objective.kernel.weight(view.z, x, at) * objective.kernel.shares(at).alpha
    assert (slope - 1).abs().min() > 0.05
    assert torch.allclose(view.weight.double(), right * slope[:, None], rtol=1e-4)


def test_costs_and_matches_know_them():
    gidd, d3pm, sedd = (recipe(f"laptop-{n}") for n in ("gidd", "d3pm", "sedd"))
    assert head_share(sedd) == 0.5
    assert head_share(gidd) == 1.0
    assert "half of them" in predicted(recipe("lm1b-d3pm"), 1e9)  # its other pass hides nothing
    half, clipped = (replace(sedd.process, block=2, clip=c) for c in ((0, 1), (0.25, 0.75)))
    share = [head_share(replace(sedd, objective="bd3lm", process=p)) for p in (half, clipped)]
    assert share == pytest.approx([0.5, 0.5])
    late = replace(clipped, clip=(0.75, 1.0))  # both of two tokens
    assert head_share(replace(sedd, objective="bd3lm", process=late)) == pytest.approx(1.0)
    assert 2 < training_flops(d3pm, 2048) / training_flops(sedd, 2048) < 2.5  # two passes
    plain = match(recipe("laptop-gidd-anchored"), 2048)
    assert plain.objective == "gidd"
    assert plain.process == gidd.process


def test_the_papers_recipes_keep_the_papers_weight():
    """Bell-shaped times and equal weights are the laptop's; GIDD's own weights are its authors'."""
    names = [n for n in registry.names("recipe") if n.startswith(("lm1b-", "owt-"))]
    assert len(names) > 15
    for name in names:
        process = recipe(name).process
        assert process.weight == ("dynamic" if name == "owt-gidd" else "bound"), name
        assert process.times == "stratified", name


def test_every_recipe_of_a_baseline_makes_its_objective():
    for name in registry.names("recipe"):
        config = recipe(name)
        if config.objective.removeprefix("adlm-") in ("d3pm", "sedd", "udlm", "gidd"):
            made = make_objective(config, VOCAB)
            assert evaluator(config, VOCAB).bound
            assert made.estimator
