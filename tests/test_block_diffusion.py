"""Block diffusion from the command line: train, resume, score, search, write, plan."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import adlm
from adlm.cli import main
from adlm.config import Config
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.cost import flops_per_token, step_memory, training_flops
from adlm.models.hub import load_model
from adlm.objectives.likelihood import evaluator
from adlm.recipes import recipe
from adlm.samplers.choice import samplers_for
from adlm.train.run import train
from adlm.types import Batch
from tests.conftest import make_config, small_corpus
from tests.models.test_checkpoint import forge


def setting(corpus: Path, objective: str = "bd3lm", block: int = 4, **run: object) -> Config:
    made = make_config(corpus, objective, **{"steps": 4, **run})
    if objective.startswith("adlm"):
        made = replace(made, model=replace(made.model, anchor_blocks=1, blocks=1))
    return replace(made, process=replace(made.process, block=block))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    text = small_corpus(home)
    train(setting(text), home / "bd3lm")
    train(setting(text, "adlm-bd3lm"), home / "anchored")
    train(setting(text, block=1), home / "exact")
    return home


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    text = small_corpus(tmp_path)
    config = setting(text, "adlm-bd3lm")
    train(config, tmp_path / "whole")
    half = replace(config, train=replace(config.train, save_every=2))
    train(half, tmp_path / "cut")
    (path,) = [p for p in (tmp_path / "cut" / "checkpoints").iterdir() if p.name.endswith("4")]
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    train(half, tmp_path / "cut", resume=True)
    one, two = (
        load_file(checkpoint.find(tmp_path / r) / "train.safetensors") for r in ("whole", "cut")
    )
    assert all(torch.equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("run", ["bd3lm", "anchored"])
def test_a_likelihood_is_a_bound_on_the_whole_interval(runs, run, capsys):
    assert main(["eval", "likelihood", str(runs / run), "--limit", "6", "--draws", "2"]) == 0
    assert "NELBO, exact-k, blocks of 4" in capsys.readouterr().out


def test_blocks_of_one_are_said_to_be_exact(runs, capsys):
    assert main(["eval", "likelihood", str(runs / "exact"), "--limit", "6"]) == 0
    told = capsys.readouterr().out
    assert "NLL (exact)" in told
    model = adlm.load(runs / "exact")
    coded, given = (model.nll(["the law"], length=way) for way in ("coded", "given"))
    assert coded == given


def test_a_row_that_blocks_do_not_fill_is_one_sentence(runs, capsys):
    words = ["eval", "likelihood", str(runs / "bd3lm"), "--data.length", "10"]
    assert main(words) == 2
    assert "process.block must divide a row of 10 tokens, found 4" in capsys.readouterr().err


def test_the_search_finds_an_interval(runs, tmp_path, capsys):
    out = tmp_path / "interval.json"
    words = ["eval", "interval", str(runs / "bd3lm"), "--limit", "8", "--out", str(out)]
    assert main(words) == 0
    assert "--process.clip '[" in capsys.readouterr().out
    found = json.loads(out.read_text())["found"]
    assert [f["variance"] for f in found] == sorted(f["variance"] for f in found)
    assert {"low": 0.0, "high": 1.0} in [{k: f[k] for k in ("low", "high")} for f in found]


def test_texts_of_any_length_and_a_page_that_replays_them(runs, tmp_path, capsys):
    page = tmp_path / "out.html"
    words = ["sample", str(runs / "anchored"), "--prompt", "the l", "--length", "42"]
    assert main([*words, "--sampler", "anchor-first", "--trace", str(page)]) == 0
    assert "anchor-first: 42 tokens" in capsys.readouterr().out
    assert page.stat().st_size > 1000
    model = adlm.load(runs / "bd3lm")
    assert len(model.generate(n=2, prompt="the ", max_new_tokens=40, seed=1)) == 2
    one, two = (model.generate(n=n, length=30, sampler="remdm-cap", seed=2) for n in (1, 3))
    assert one == two[:1]
    assert model.infill("the [MASK:3] of the sea", n=1)[0].endswith(" of the sea")


def test_anchors_are_looked_at_after_clean_blocks(runs, tmp_path):
    out = tmp_path / "anchors.json"
    words = ["eval", "anchors", str(runs / "anchored"), "--plain", str(runs / "bd3lm")]
    words += ["--rows", "4", "--texts", "0", "--draws", "1", "--judge", "none"]
    assert main([*words, "--out", str(out)]) == 0
    named = set(re.findall(r'"network": "(.*?)"', out.read_text()))
    assert named == {"anchor network", "denoiser", "plain model"}


def test_the_harness_scores_a_continuation_after_clean_blocks(runs):
    """Many draws of the bound against the bound of its blocks, one token each: the chain rule."""
    pytest.importorskip("lm_eval")
    from adlm.eval.harness.model import Harness

    judge = Harness(str(runs / "exact"), draws=400, device="cpu")
    given, target = list(b"the law "), list(b"of the")
    nats, _ = judge.score(given, target)
    model = judge.model
    x = torch.tensor([given + target])
    objective = evaluator(model.config, model.vocab)
    valid = torch.arange(x.shape[1])[None] >= len(given)
    batch = Batch(x, valid, torch.zeros_like(x))
    exact = objective.score(model.network, batch, None).rows.item()
    assert abs(nats - exact) < 4 * judge.errors[-1]


def test_the_samplers_of_a_checkpoint_are_those_inside_its_blocks(runs):
    config = checkpoint.load(runs / "bd3lm").config
    known = samplers_for(config)
    assert "first-hitting" in known
    assert "blocks" not in known
    with pytest.raises(UserError, match="cannot be sampled by 'blocks'"):
        adlm.load(runs / "bd3lm").generate(sampler="blocks")


@pytest.mark.parametrize("name", ["laptop-bd3lm", "laptop-bd3lm-anchored"])
def test_training_goes_on_from_an_mdlm(tmp_path, name):
    """Its tensors are block diffusion's, plain or anchored: two steps leave them near."""
    text = small_corpus(tmp_path)
    train(setting(text, "mdlm", steps=1), tmp_path / "mdlm")
    words = f"train {name} --base {tmp_path / 'mdlm'} --out {tmp_path / 'run'} --data {text}"
    words += " --data.length 16 --train.steps 2 --train.batch 4 --train.eval_rows 4"
    assert main(words.split()) == 0
    found = checkpoint.load(tmp_path / "run")
    assert (found.step, found.config.objective) == (2, recipe(name).objective)
    assert load_model(found).block == 4
    before, after = (checkpoint.load(tmp_path / run).training() for run in ("mdlm", "run"))
    one, two = (tensors["weights.embed.weight"] for tensors in (before, after))
    assert 0 < (two - one).norm() < 0.2 * one.norm()


@pytest.mark.parametrize("objective", ["mdlm", "bd3lm"])
def test_a_checkpoint_from_before_a_setting_has_its_plain_value(tmp_path, objective):
    train(setting(small_corpus(tmp_path), objective, steps=1), tmp_path / "run")
    folder = checkpoint.find(tmp_path / "run")
    right = adlm.load(folder).nll(["the law of the sea"])
    values = json.loads((folder / "config.json").read_text())
    kept = ("schedule", "masking", "steps", "eps", "conditioned", "remask", "weight", "times")
    values["process"] = {name: values["process"][name] for name in kept}
    (folder / "config.json").write_text(json.dumps(values))
    forge(folder)
    old = adlm.load(folder)
    assert (old.config.process.kernel, old.config.process.block) == ("mask", 4)
    assert old.nll(["the law of the sea"]) == right
    assert main(["eval", "likelihood", str(folder), "--limit", "2", "--draws", "1"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("laptop-bd3lm --process.block 5", "process.block must divide a row of 16 tokens, found 5"),
        ("laptop-d3pm --process.steps 0", "process.steps must be at least 1, found 0"),
        ("laptop-gidd --process.kernel mixture:1", "a share in [0, 0.999], found 1"),
        ("laptop-gidd --process.kernel mixture:-0.1", "a share in [0, 0.999], found -0.1"),
    ],
)
def test_training_that_makes_no_sense_is_one_sentence(tmp_path, words, says, capsys):
    data = f"--data {small_corpus(tmp_path)} --data.tokenizer byte --data.length 16"
    assert main(f"train {words} {data} --out {tmp_path / 'run'}".split()) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_sampler_that_a_model_cannot_serve_is_one_sentence(runs, capsys):
    assert main(["sample", str(runs / "bd3lm"), "--sampler", "posterior"]) == 2
    assert "cannot be sampled by 'posterior'; it has" in capsys.readouterr().err


def test_the_plan_counts_a_row_twice():
    ours, theirs = recipe("owt-bd3lm"), recipe("owt-mdlm")
    trunk = [flops_per_token(c, 50258, 0.0) for c in (ours, theirs)]
    assert 2 < trunk[0] / trunk[1] < 2.5  # attention, to twice as many, costs four times as much
    assert 1.3 < training_flops(ours, 50258) / training_flops(theirs, 50258) < 2.2
    assert step_memory(ours, 50258) > 1.7 * step_memory(theirs, 50258)


def test_anchoring_takes_two_lines():
    plain, anchored = recipe("laptop-bd3lm"), recipe("laptop-bd3lm-anchored")
    assert anchored.objective == "adlm-bd3lm"
    assert anchored.model.blocks + anchored.model.anchor_blocks == plain.model.blocks
    assert anchored.process == plain.process
