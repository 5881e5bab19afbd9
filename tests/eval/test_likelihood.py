"""Perplexity: the same for any batch size and worker count, with errors that mean what they say."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import adlm
from adlm.commands.eval_likelihood import eval_likelihood
from adlm.config import DataConfig, OptimConfig
from adlm.data.cache import TokenStore
from adlm.data.corpus import open_rows
from adlm.data.lengths import Lengths
from adlm.data.pack import pack
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.eval.likelihood import DataChoice, LikelihoodSettings
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.objectives.likelihood import (
    Likelihood,
    evaluator,
    length_nats,
    row_noise,
    score,
    spread,
    token_nats,
)
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


@pytest.mark.parametrize("objective", ["ar", "mdlm"])
def test_the_nats_of_tokens_add_up_to_those_of_their_row(runs, objective):
    saved = checkpoint.load(runs / objective)
    model, how = load_model(saved), evaluator(saved.config, saved.vocab)
    rows = open_rows(replace(saved.config.data, packing="document"), "test", saved.vocab)
    whole = score(model, how, rows, np.arange(len(rows)), draws=2, quiet=True).nats.mean(axis=1)
    each = token_nats(model, how, rows, draws=2)
    assert np.allclose(each.sum(axis=1), whole, rtol=1e-5)
    assert (each[np.arange(rows.length) >= rows.count[:, None]] == 0).all()  # padding costs nothing


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
    assert 0.5 < values.std(ddof=1) / claimed < 1.6  # eight values


@pytest.mark.parametrize("draws", [2, 4, 5, 16])
def test_the_error_of_the_draws_is_that_of_stratified_draws(draws):
    """A loss that rises over time by far more than it varies, and varies most at the start."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(20, 60, 200)
    level, slope = generator.normal(3, 0.5, 200), generator.normal(4, 0.2, 200)  # of each row

    def scored() -> Likelihood:
        t = (np.arange(draws) + generator.random((200, draws))) / draws
        noise = generator.normal(0, 0.2, (200, draws)) * (1 + 4 * (t < 1 / draws))
        rate = level[:, None] + slope[:, None] * t + noise
        return Likelihood(rate * tokens[:, None], tokens, np.arange(200), np.arange(200))

    found = [scored() for _ in range(400)]
    spread_of_seeds = np.std([f.nll for f in found], ddof=1)
    claimed = np.mean([f.se_monte_carlo for f in found])
    assert math.isclose(claimed, spread_of_seeds, rel_tol=0.12)
    independent = np.sqrt((found[0].nats.var(axis=1, ddof=1) / draws).sum()) / tokens.sum()
    assert independent > 1.3 * claimed


def test_the_error_of_the_draws_meets_the_spread_over_seeds(runs):
    """On a trained network, with its real curve over time; at most a tenth too large."""
    saved = checkpoint.load(runs / "mdlm")
    rows = open_rows(saved.config.data, "test", saved.vocab)
    how, model = evaluator(saved.config, saved.vocab), load_model(saved)
    index = np.arange(min(12, len(rows)))
    found = [score(model, how, rows, index, draws=4, seed=s, quiet=True) for s in range(60)]
    every = np.stack([f.nats for f in found])  # (seeds, R, M): a row's draws are independent
    truth = math.sqrt(every.var(axis=0, ddof=1).sum()) / 4 / found[0].tokens.sum()
    claimed = math.sqrt(np.mean([f.se_monte_carlo**2 for f in found]))
    assert 0.9 < claimed / truth < 1.15


def test_the_standard_error_is_that_of_a_ratio():
    generator = np.random.default_rng(0)
    tokens = generator.integers(5, 30, 400)
    nats = (tokens * generator.normal(3, 0.5, 400))[:, None]
    found = Likelihood(nats, tokens, np.arange(400), np.arange(400))
    picks = generator.integers(0, 400, (2000, 400))
    bootstrap = (nats[picks, 0].sum(1) / tokens[picks].sum(1)).std()
    assert math.isclose(found.se, bootstrap, rel_tol=0.1)


def test_the_standard_error_is_over_documents():
    """Corpora of 40 documents whose rows are alike: rows as such seem surer than they are."""
    generator = np.random.default_rng(0)

    def corpus() -> Likelihood:
        rows = generator.integers(3, 40, 40)
        document = np.repeat(np.arange(40), rows)
        effect = generator.normal(3, 0.5, 40)[document]
        tokens = generator.integers(20, 60, len(document))
        nats = tokens * (effect + generator.normal(0, 0.3, len(document)))
        return Likelihood(nats[:, None], tokens, document, np.arange(len(document)))

    found = [corpus() for _ in range(300)]
    truth = np.std([f.nll for f in found], ddof=1)
    clustered = np.mean([f.se for f in found])
    apart = np.mean([replace(f, document=f.index).se for f in found])
    assert math.isclose(clustered, truth, rel_tol=0.12)
    assert apart < truth / 3
    assert found[0].documents == 40
    assert math.isnan(replace(found[0], document=found[0].index * 0).se), (
        "one document has no error"
    )


def test_row_noise_depends_on_row_and_seed_alone():
    noise = row_noise(3, 17, 4, 6)
    again = row_noise(3, 17, 4, 6)
    assert torch.equal(noise.u, again.u)
    assert torch.equal(noise.t, again.t)
    assert not torch.equal(noise.u, row_noise(3, 18, 4, 6).u)
    assert (torch.ceil(noise.t * 4) == torch.arange(1, 5)).all()


@pytest.mark.parametrize("objective", ["ar", "mdlm"])
def test_the_result_file_says_everything(runs, objective, tmp_path, capsys):
    eval_likelihood(
        str(runs / objective), LikelihoodSettings(draws=2, device="cpu"), str(tmp_path / "r.json")
    )
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
    assert (result["se_over"], result["given"], result["with_length"]) == ("documents", None, None)
    assert ("≤" in capsys.readouterr().out) == (objective == "mdlm")


def test_the_exact_figure_of_an_order_stands_beside_the_bound(runs, tmp_path, capsys):
    settings = LikelihoodSettings(draws=1, limit=4, order="left-to-right", device="cpu")
    eval_likelihood(str(runs / "mdlm"), settings, str(tmp_path / "r.json"))
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["in_order"]["order"], found["in_order"]["passes"]) == ("left-to-right", 16)
    assert 0 < found["in_order"]["nll_per_token"] < 2 * found["nll_per_token"]
    assert "in the order left-to-right, exactly: PPL" in capsys.readouterr().out
    with pytest.raises(UserError, match="--order is for masked diffusion"):
        eval_likelihood(str(runs / "ar"), settings, str(tmp_path / "r.json"))


def test_the_python_interface_scores_texts(runs):
    model = adlm.load(runs / "ar")
    texts = ["the law of the sea", "zzzz qqqq xxxx vvvv", "the law of the sea is the law sea" * 3]
    nats = model.nll(texts)
    assert nats.shape == (3,)
    assert nats[0] < nats[1]
    assert np.allclose(model.nll(texts[:1]), nats[:1], rtol=1e-5)
    with pytest.raises(UserError, match="at least one character"):
        model.nll(["fine", " "])


@pytest.fixture(scope="module")
def sevens(tmp_path_factory):
    """AR and MDLM of texts a, aa, ... of seven equally likely lengths."""
    home = tmp_path_factory.mktemp("sevens")
    corpus = home / "corpus.jsonl"
    corpus.write_text("".join(f'{{"text": "{"a" * (1 + i % 7)}"}}\n' for i in range(1400)))
    for objective in ("ar", "mdlm"):
        config = make_config(corpus, objective, steps=200, batch=32)
        optim = OptimConfig(name="adamw", lr=1e-2, warmup=5)
        data = replace(config.data, length=10, packing="document")
        train(replace(config, data=data, optim=optim), home / objective)
    return home


def test_a_bound_with_lengths_coded_is_one_of_a_distribution_over_texts(sevens):
    """The sum over texts of exp(-nll) is at most 1; given the length it is 1 for each length."""
    texts = ["a" * n for n in range(1, 10)]
    model, ar = adlm.load(sevens / "mdlm"), adlm.load(sevens / "ar")
    given = np.exp(-model.nll(texts, draws=32, length="given"))
    coded = np.exp(-model.nll(texts, draws=32))
    assert 6 < given.sum() < 9 + 1e-6
    assert 0.85 < coded.sum() <= 1 + 1e-6
    assert 0.85 < np.exp(-ar.nll(texts)).sum() <= 1 + 1e-6
    assert np.allclose(ar.nll(texts), ar.nll(texts, length="given"))
    difference = model.nll(texts[:7], draws=32) - ar.nll(texts[:7])
    assert abs(difference).max() < 0.5, "AR and diffusion can be compared"
    with pytest.raises(UserError, match="length must be coded or given, found 'known'"):
        model.nll(texts, length="known")


def test_document_rows_say_that_the_length_is_given(sevens, tmp_path, capsys):
    found = {}
    for objective in ("ar", "mdlm"):
        out = tmp_path / f"{objective}.json"
        eval_likelihood(
            str(sevens / objective), LikelihoodSettings(device="cpu", draws=8), str(out)
        )
        found[objective] = json.loads(out.read_text())
    assert "with the lengths coded: PPL ≤" in capsys.readouterr().out
    ours, ar = found["mdlm"], found["ar"]
    assert (ours["given"], ar["given"], ar["with_length"]) == ("length", None, None)
    assert "given the lengths of documents" in ours["quantity"]
    coded = ours["with_length"]
    assert ours["nll_per_token"] < 0.1 < ar["nll_per_token"]
    assert math.isclose(coded["nll_per_token"], ar["nll_per_token"], rel_tol=0.15)
    assert "training rows" in coded["code"]


def test_a_checkpoint_without_counts_takes_lengths_as_equally_likely(sevens, tmp_path, monkeypatch):
    texts = ["aaa", "a"]
    known = adlm.load(sevens / "mdlm")
    monkeypatch.setattr(checkpoint.Checkpoint, "lengths", lambda saved: Lengths.unknown(10))
    unknown = adlm.load(sevens / "mdlm")
    cost = unknown.nll(texts) - unknown.nll(texts, length="given")
    assert np.allclose(cost, math.log(10))
    assert (known.nll(texts) < unknown.nll(texts)).all()


@pytest.mark.parametrize("packing", ["wrap", "document"])
@pytest.mark.parametrize("attend", ["row", "document"])
def test_coded_lengths_are_a_code_of_the_rows_that_show_them(packing, attend):
    """Over every way in which documents may lie in a row, exp(-cost) sums to at most 1."""
    vocab, length = byte_vocab(), 5
    lengths = Lengths(np.array([3, 1, 0, 2, 9]))
    total = 0.0
    ways = itertools.product((False, True), repeat=length - 1)  # is there an end after token i?
    for way in ways:
        ends = np.append(np.flatnonzero(way) + 1, length)
        store = TokenStore(np.zeros(length, dtype=np.int64), ends, 0, "")
        rows = pack(store, vocab, length, packing, attend)
        assert rows.shows_ends == (packing == "document" or attend == "document")
        cost = length_nats(rows, np.arange(len(rows)), lengths)
        total += math.exp(-cost.sum())
    assert 0.3 < total <= 1


def test_a_training_that_leaves_times_out_gives_no_bound(runs, tmp_path, capsys):
    """process.eps 0.3: the figure is not called a bound, and may be below the NLL."""
    config = make_config(runs / "corpus.txt", steps=2)
    process = replace(config.process, masking="bernoulli", eps=0.3)
    train(replace(config, process=process), tmp_path / "run")
    for estimator in ("recipe", "auto"):
        out = tmp_path / f"{estimator}.json"
        settings = LikelihoodSettings(estimator=estimator, device="cpu", limit=4)
        eval_likelihood(str(tmp_path / "run"), settings, str(out))
        result, shown = json.loads(out.read_text()), capsys.readouterr().out
        is_bound = estimator == "auto"
        assert result["bound"] == is_bound
        assert ("upper bound" in result["quantity"]) == is_bound
        assert ("no bound" in result["quantity"]) != is_bound
        assert ("PPL ≤" in shown) == is_bound
        assert ("from 0.3 on" in result["estimator"]) != is_bound


def test_settings_that_do_not_fit_the_checkpoint(runs):
    run = str(runs / "mdlm")
    with pytest.raises(UserError, match="not the checkpoint's"):
        eval_likelihood(run, LikelihoodSettings(data=DataChoice(tokenizer="bpe:300")))
    with pytest.raises(UserError, match="beyond the 16 tokens"):
        eval_likelihood(run, LikelihoodSettings(data=DataChoice(length=64)))
    with pytest.raises(UserError, match="--draws must be at most 100,000"):
        LikelihoodSettings(draws=2**63 - 1)
    with pytest.raises(UserError, match=r"keeping every draw takes about .* fewer rows or draws"):
        adlm.load(run).nll(["the law"], draws=2**62)
