"""Perplexity: the same for any batch size and worker count, with errors that mean what they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import adlm
from adlm.commands.likelihood import DataChoice, start
from adlm.config import DataConfig
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.eval.likelihood import Likelihood, evaluator, row_noise, score, spread
from adlm.models.hub import load_model
from adlm.train import checkpoint
from adlm.train.run import train
from tests.conftest import make_config


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A small trained AR and MDLM."""
    home = tmp_path_factory.mktemp("runs")
    text = home / "corpus.txt"
    text.write_text("\n".join(f"the law of the {w} is the law {w}" for w in ("union", "sea") * 200))
    for objective in ("ar", "mdlm"):
        config = make_config(text, objective, steps=30, batch=8)
        train(replace(config, optim=replace(config.optim, warmup=5)), home / objective)
    return home


@pytest.mark.parametrize("objective", ["ar", "mdlm"])
@pytest.mark.parametrize("packing", ["wrap", "document"])
def test_batch_size_does_not_matter(runs, objective, packing):
    saved = checkpoint.load(runs / objective)
    model = load_model(saved)
    rows = open_rows(replace(saved.config.data, packing=packing), "test", saved.vocab)
    how = evaluator(saved.config, saved.vocab)
    every = np.arange(len(rows))
    answers = [
        score(model, how, rows, every, draws=3, batch=size, quiet=True) for size in (1, 7, 64)
    ]
    for other in answers[1:]:
        assert np.allclose(other.nats, answers[0].nats, rtol=1e-5)
    shuffled = score(model, how, rows, every[::-1].copy(), draws=3, quiet=True)
    assert np.allclose(shuffled.nats[::-1], answers[0].nats, rtol=1e-5)
    assert answers[0].tokens.sum() == len(rows.store.tokens)


def test_real_sets_score_the_same_with_1_and_8_workers(shared, tmp_path, runs, monkeypatch):
    saved = checkpoint.load(runs / "mdlm")
    model, how = load_model(saved), evaluator(saved.config, saved.vocab)
    for name, split in (("ptb", "test"), ("scitldr", "valid")):
        found = []
        for workers in (1, 8):
            monkeypatch.setenv("ADLM_CACHE", str(tmp_path / f"{workers}"))
            data = DataConfig(name=name, dir=str(shared), length=16, workers=workers)
            rows = open_rows(data, split, saved.vocab)
            found.append(score(model, how, rows, spread(len(rows), 40), quiet=True).nll)
        assert found[0] == found[1]


def test_estimates_of_different_seeds_agree_within_their_errors(runs):
    saved = checkpoint.load(runs / "mdlm")
    rows = open_rows(saved.config.data, "test", saved.vocab)
    how, model = evaluator(saved.config, saved.vocab), load_model(saved)
    found = [
        score(model, how, rows, np.arange(len(rows)), draws=8, seed=s, quiet=True) for s in range(8)
    ]
    values = np.array([f.nll for f in found])
    claimed = np.mean([f.se_monte_carlo for f in found])
    assert 0.3 < values.std(ddof=1) / claimed < 1.2  # strata only make the truth smaller


def test_the_standard_error_is_that_of_a_ratio():
    generator = np.random.default_rng(0)
    tokens = generator.integers(5, 30, 400)
    nats = (tokens * generator.normal(3, 0.5, 400))[:, None]
    found = Likelihood(nats, tokens)
    picks = generator.integers(0, 400, (2000, 400))
    bootstrap = (nats[picks, 0].sum(1) / tokens[picks].sum(1)).std()
    assert math.isclose(found.se, bootstrap, rel_tol=0.1)


def test_row_noise_depends_on_row_and_seed_alone():
    noise = row_noise(3, 17, 4, 6)
    again = row_noise(3, 17, 4, 6)
    assert torch.equal(noise.u, again.u)
    assert torch.equal(noise.t, again.t)
    assert not torch.equal(noise.u, row_noise(3, 18, 4, 6).u)
    assert (torch.ceil(noise.t * 4) == torch.arange(1, 5)).all()


@pytest.mark.parametrize("objective", ["ar", "mdlm"])
def test_the_result_file_says_everything(runs, objective, tmp_path, capsys):
    start(str(runs / objective), out=str(tmp_path / "r.json"), draws=2, device="cpu")
    result = json.loads((tmp_path / "r.json").read_text())
    wanted = (
        "nll_per_token ppl bits_per_byte se_nll se_ppl se_monte_carlo tokens bytes draws exact "
    )
    wanted += "estimator seed precision data_hash checkpoint_hash tokenizer_hash config machine"
    assert set(wanted.split()) <= set(result)
    assert result["exact"] == (objective == "ar")
    assert result["draws"] == (1 if objective == "ar" else 2)
    bits = result["nll_per_token"] * result["tokens"] / result["bytes"] / math.log(2)
    assert math.isclose(bits, result["bits_per_byte"])
    assert ("<=" in capsys.readouterr().out) == (objective == "mdlm")


def test_the_python_interface_scores_texts(runs):
    model = adlm.load(runs / "ar")
    texts = ["the law of the sea", "zzzz qqqq xxxx vvvv", "the law of the sea is the law sea" * 3]
    nats = model.nll(texts)
    assert nats.shape == (3,)
    assert nats[0] < nats[1]
    assert np.allclose(model.nll(texts[:1]), nats[:1], rtol=1e-5)
    with pytest.raises(UserError, match="at least one character"):
        model.nll(["fine", " "])


def test_settings_that_do_not_fit_the_checkpoint(runs):
    run = str(runs / "mdlm")
    with pytest.raises(UserError, match="not the checkpoint's"):
        start(run, DataChoice(tokenizer="bpe:300"))
    with pytest.raises(UserError, match="beyond the 16 tokens"):
        start(run, DataChoice(length=64))
