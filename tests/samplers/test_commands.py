"""Samplers from the command line and from Python."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

import adlm
import adlm.api
import adlm.errors
from adlm.cli import main
from adlm.config import Config, ModelConfig
from adlm.data.vocab import byte_vocab, make_vocab
from adlm.models.build import build_model
from adlm.samplers import template
from adlm.samplers.cache import CacheSettings
from adlm.samplers.choice import samplers_for
from adlm.samplers.template import holes
from adlm.train.run import train
from tests.conftest import make_config, small_corpus


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    text = small_corpus(home)
    for objective in ("ar", "mdlm"):
        train(make_config(text, objective, steps=3), home / objective)
    return home


def test_the_command_and_the_interface(runs, tmp_path, capsys):
    out = tmp_path / "s.jsonl"
    words = ["sample", str(runs / "mdlm"), "-n", "3", "--prompt", "the ", "--json", str(out)]
    assert main([*words, "--nucleus", "0.9", "--steps", "8"]) == 0
    assert "network passes a text" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3
    assert all(r["tokens"][:4] == list(b"the ") or r["text"].startswith("the ") for r in rows)
    model = adlm.load(runs / "ar")
    texts = model.generate(n=2, prompt="the ", seed=1)
    assert all(t.startswith("the ") for t in texts)
    assert model.generate(n=1, prompt="the ", seed=1) == texts[:1]
    assert model.generate(n=2, prompt="the ", seed=2) != texts


def test_names_that_other_libraries_have_mean_the_same(runs, tmp_path):
    model = adlm.load(runs / "mdlm")
    ours = model.generate(n=2, prompt="the ", length=10, nucleus=0.9, steps=4)
    new = {"max_new_tokens": 6, "steps": 4}
    assert model.generate(num_samples=2, prompt="the ", top_p=0.9, **new) == ours
    out = tmp_path / "s.jsonl"
    words = ["sample", str(runs / "mdlm"), "--num-samples", "2", "--prompt", "the ", "--top_p"]
    words += ["0.9", "--max_new_tokens", "6", "--steps", "4", "--json", str(out)]
    assert main(words) == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ours
    with pytest.raises(adlm.errors.UserError, match="num_samples is another name of n"):
        model.generate(n=2, num_samples=3)
    with pytest.raises(adlm.errors.UserError, match="there is no setting 'topp'"):
        model.generate(topp=0.9)


@pytest.mark.parametrize("kind", ["prefix", "dual", "delayed"])
def test_a_cache_from_the_command_line_and_from_python(runs, kind, tmp_path):
    model, out = adlm.load(runs / "mdlm"), tmp_path / "s.jsonl"
    words = ["sample", str(runs / "mdlm"), "-n", "2", "--sampler", "confidence", "--cache", kind]
    assert main([*words, "--json", str(out)]) == 0
    ours = model.generate(n=2, sampler="confidence", cache=kind)
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ours
    kept = CacheSettings(kind, every=1, block=16)  # in full each time, in one block
    plain = model.generate(n=2, sampler="confidence")
    assert model.generate(n=2, sampler="confidence", cache=kept) == plain


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("mdlm --max_new_tokens 0", "--max_new_tokens must be at least 1, found 0"),
        ("mdlm --max_new_tokens 4 --length 8", "--length (with the prompt) or --max_new_tokens"),
        ("mdlm --max_new_tokens 99", "the text is to have 99 tokens, and only 16 fit"),
        ("ar --sampler ancestral", "it has causal"),
        ("mdlm --sampler causal", "it has ancestral, blocks, confidence, dfm, first-hitting, f"),
        ("mdlm --sampler anchor-first", "a checkpoint of mdlm cannot be sampled by 'anchor-first'"),
        ("mdlm --sampler remdm-cap --eta 1.5", "--policy.eta must be in [0, 1], found 1.5"),
        ("mdlm --sampler remdm-loop --eta 0.2", "in [0, 0.111] at alpha_on 0.9, found 0.2"),
        ("mdlm --sampler remdm-loop --policy.t_off 0.7", "--policy.t_off must be above 0, below"),
        ("mdlm --sampler remdm-switch --policy.t_switch 1.5", "t_switch must be in [0, 1]"),
        ("mdlm --sampler remdm-loop --policy.alpha_on 1.0", "alpha_on must be above 0 and below 1"),
        ("mdlm --sampler remdm-cap --policy.etta 1", "it has eta (0.04)"),
        ("mdlm --sampler remdm-cap --policy.eta high", "--policy.eta must be a number"),
        ("mdlm --sampler confidence --policy.by luck", "one of probability, margin, entropy"),
        ("mdlm --sampler blocks --policy.size 17", "at most the context, 16, found 17"),
        ("mdlm --sampler blocks --policy.inner blocks", "must be another sampler than blocks"),
        ("mdlm --sampler blocks --policy.inner anchor-first", "has no 'anchor-first'"),
        ("mdlm --cache double", "cache.kind must be one of 'none', 'prefix', 'dual', 'delayed'"),
        ("mdlm --cache dual --cache.every 1000001", "--cache.every must be at most 1,000,000"),
        ("mdlm --cache dual --cache.every 0", "--cache.every must be at least 1, found 0"),
        ("ar --cache dual", "--cache dual is for models of whole rows: ar keeps what is finished"),
        ("mdlm --anchor_every 4", "--anchor_every is for anchored diffusion, not for mdlm"),
        ("mdlm --anchor-every 0", "--anchor_every must be at least 1, found 0"),
        ("mdlm --anchor_every 1000001", "--anchor_every must be at most 1,000,000, found 1000001"),
        ("mdlm --steps 1000001", "--steps must be at most 1,000,000, found 1000001"),
        ("mdlm -n 10000001", "--n must be at most 10,000,000, found 10000001"),
        ("mdlm --seed 2147483648", "--seed must be in [0, 2^31), found 2147483648"),
        ("mdlm --at_once 100001", "--at_once must be at most 100,000, found 100001"),
        ("ar --eta 0.1", "the sampler causal has no options"),
        ("mdlm --prompt " + "x" * 40, "the prompt has 40 tokens, and only 16 fit"),
        ("mdlm -n 0", "--n must be at least 1"),
        ("mdlm --steps 0", "--steps must be at least 1"),
        ("mdlm --nucleus 0", "nucleus must be in (0, 1]"),
        ("mdlm --temperature -1", "temperature must be 0 (the likeliest token)"),
        ("mdlm --length 99", "to have 99 tokens, and only 16 fit (the sampler blocks"),
        ("mdlm --length 1", "--length must be from 2 to"),
        ("mdlm --precision fp8", "--precision must be one of auto, bf16, fp32"),
    ],
)
def test_bad_input_is_one_sentence(runs, words, says, capsys):
    name, *rest = words.split()
    assert main(["sample", str(runs / name), *rest]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no hole here", "the template has no hole: write [MASK]"),
        ("a [MASK:40] b", "the text is to have 44 tokens, and only 16 fit"),
        ("a [MASK:0] b", "[MASK:0] must be a hole of at least 1 token"),
        ("a [MASK:99999999999999999999] b", "must be a hole of at least 1 token"),
    ],
)
def test_a_bad_template_is_one_sentence(runs, text, says, capsys):
    assert main(["infill", str(runs / "mdlm"), text]) == 2
    assert says in capsys.readouterr().err


def test_infilling_keeps_what_is_given(runs, capsys):
    assert main(["infill", str(runs / "mdlm"), "the [MASK:3] sea [MASK]!", "-n", "3"]) == 0
    texts = capsys.readouterr().out.split("---")[1:-1]
    assert len(texts) == 3
    assert all("the " in t and " sea " in t and t.rstrip().endswith("!") for t in texts)
    for name in ("ar", "mdlm"):
        made = adlm.load(runs / name).infill("[MASK]aw[MASK]", n=2, seed=3)
        assert len(made) == 2


def test_a_hole_takes_the_space_before_it_where_words_carry_theirs():
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    vocab = make_vocab(words)
    assert holes("a [MASK] b", vocab).tolist() == [0, vocab.mask, 1]
    vocab = byte_vocab()
    assert len(holes("a [MASK] b", vocab)) == 5


def test_long_texts_by_blocks(runs):
    model = adlm.load(runs / "mdlm")
    made = model.generate(prompt="the ", length=50, sampler="blocks", policy={"size": 8}, seed=1)
    tokens = model.vocab.encode(made)[0]
    assert made[0].startswith("the ")
    assert len(tokens) > 16


def test_a_document_ends_at_its_end(runs):
    model = adlm.load(runs / "ar")
    alone = replace(model.config, data=replace(model.config.data, packing="document"))
    made = model.write(template.after("", 16, model.vocab), adlm.api.settings(n=40))
    same = replace(model, config=alone).write(
        template.after("", 16, model.vocab), adlm.api.settings(n=40)
    )
    assert (made.tokens == same.tokens).all()
    assert (made.ends == 16).all()
    for row, end in zip(same.tokens, same.ends, strict=True):
        assert model.vocab.eos not in row[: end - 1]
        assert end == 16 or row[end - 1] == model.vocab.eos


def test_a_model_that_sees_the_noise_level_is_told_it(runs):
    model = adlm.load(runs / "mdlm")
    shape = replace(model.config.model, time=8)
    process = replace(model.config.process, conditioned=True)
    config = replace(model.config, model=shape, process=process)
    network = build_model(config, model.vocab.size)
    levels = []
    network.register_forward_pre_hook(lambda _, given: levels.append(given[1].sigma))
    timed = replace(model, config=config, network=network)
    assert len(timed.generate(n=2, steps=4)) == 2
    told = {round(float(s), 6) for sigma in levels for s in sigma}
    assert told <= {round(-math.log(max(1 - i / 4, 1e-4)), 6) for i in range(1, 5)}
    assert len(told) > 2
    assert timed.trace(n=1, steps=2).anchors is not None


def test_unknown_settings_are_named(runs):
    with pytest.raises(adlm.errors.UserError, match=r"there is no setting 'step'.*steps"):
        adlm.load(runs / "mdlm").generate(step=3)
    with pytest.raises(adlm.errors.UserError) as raised:
        adlm.load(runs / "mdlm").generate("x", foo=1)
    named = str(raised.value).partition("; there is ")[2].split(", ")
    assert {"length", "max_new_tokens", "num_samples", "top_p", "nucleus", "steps"} <= set(named)
    with pytest.raises(adlm.errors.UserError, match="no setting 'max_new_tokens'; there is"):
        adlm.load(runs / "mdlm").infill("[MASK]", max_new_tokens=1)  # its holes say how many


def test_each_objective_has_its_samplers():
    assert samplers_for(Config(objective="a2r")) == ["causal"]
    assert "anchor-first" not in samplers_for(Config(objective="mdlm"))
    anchored = Config(objective="adlm", model=ModelConfig(anchor_blocks=1))
    assert "anchor-first" in samplers_for(anchored)


def test_a_document_ends_at_its_first_end_and_one_without_goes_on(runs):
    model = adlm.load(runs / "ar")
    alone = replace(model.config, data=replace(model.config.data, packing="document"))
    vocab, made = model.vocab, np.full((2, 8), ord("a"))
    made[0, [2, 5]] = vocab.eos
    made[1] = vocab.mask  # one row is to be written, with no end in it
    never = replace(model, config=alone)
    with torch.no_grad():
        never.network.head.bias[vocab.eos] = -1e3
    given = [np.append(made[0], vocab.mask), np.append(made[1], vocab.mask)]
    found = never.write(given, adlm.api.settings(n=1))
    assert found.ends.tolist() == [3, 9]
    published = replace(never, config=replace(alone, data=replace(alone.data, compat=True)))
    given[0][:2] = vocab.eos  # the first begins the row
    assert published.write(given[0], adlm.api.settings(n=1)).ends.tolist() == [2]
    assert never.write(given[0], adlm.api.settings(n=1)).ends.tolist() == [1]


def test_twice_as_many_texts_ask_the_head_twice_as_often(runs):
    model = adlm.load(runs / "ar")
    given = template.after("", 16, model.vocab)
    heads = [model.write(given, adlm.api.settings(n=n)).heads for n in (1, 2)]
    assert heads[1] == 2 * heads[0] > 0
