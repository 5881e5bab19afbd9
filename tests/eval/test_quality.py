"""Judges and figures of generated texts: real packages, no download."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from adlm.cli import main
from adlm.data.cache import TokenStore
from adlm.data.pack import pack
from adlm.data.sources import open_source
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.eval.judge import Judge, Sentences
from adlm.eval.mauve import mauve
from adlm.eval.texts import Texts, describe, references
from adlm.recipes import recipe
from adlm.train.run import train
from tests.conftest import make_config


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A randomly initialised GPT-2 with a word-level tokenizer, in the hub's layout."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    home = tmp_path_factory.mktemp("judge")
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(30)} | {"[UNK]": 30}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    fast.save_pretrained(home)
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=31, n_positions=64, n_embd=16, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(home)
    return home


def test_generative_perplexity_is_the_judges_own_loss(judge):
    texts = ["w1 w2 w3 w4 w5", "w7 w7", "w9", "", "w3 w1 w4 w1 w5 w9 w2 w6"]
    found = Judge(str(judge), batch=2).score(texts)
    assert found.tokens.tolist() == [4, 1, 0, 0, 7]
    tokenizer, model = Judge(str(judge)).parts
    nats = 0.0
    for text in (texts[0], texts[1], texts[4]):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.no_grad():
            nats += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
    assert found.ppl == pytest.approx(math.exp(nats / 12), rel=1e-5)
    alone = Judge(str(judge)).score(texts[:1])
    assert np.allclose(alone.hidden[0], found.hidden[0], atol=1e-5), "padding changes nothing"


def test_a_text_is_passed_once_whatever_is_asked_of_it(judge, monkeypatch):
    made, passed = Judge(str(judge), batch=2), []
    plain = made._pass
    monkeypatch.setattr(made, "_pass", lambda model, ids: passed.extend(ids) or plain(model, ids))
    both = made.score(["w1 w2", "w3 w4 w5", "w1 w2"])
    assert np.array_equal(made.features(["w3 w4 w5", "w1 w2"]), both.hidden[[1, 0]])
    assert len(passed) == 2
    assert both.tokens.tolist() == [1, 2, 1]


def test_the_whole_command(judge, text_file, tmp_path, capsys):
    train(make_config(text_file, steps=2), tmp_path / "run")
    out = tmp_path / "q.json"
    words = ["eval", "samples", str(tmp_path / "run"), "-n", "20", "--steps", "4"]
    assert main([*words, "--judge", str(judge), "--out", str(out), "--mauve_seeds", "2"]) == 0
    result = json.loads(out.read_text())
    ours, real = result["rows"]["samples"], result["rows"]["real texts"]
    assert ours["texts"] == 20
    assert real["texts"] == 40
    assert ours["distinct_texts"] == real["distinct_texts"] == 20
    assert 0 < ours["entropy"]["mean"] <= math.log(16)
    assert ours["generative_ppl"] > 1
    assert len(ours["mauve"]["values"]) == 2
    shown = capsys.readouterr().out
    assert "20 texts are few: MAUVE wants 1000 or more" in shown
    assert "entropy (nats)" in shown


def test_the_same_samples_have_the_same_figures_from_a_run_and_from_its_file(tmp_path):
    """Tokens after the end of a document are neither written to the file nor counted."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(['{"text": "ab cd"}', '{"text": "dc"}'] * 300))
    config = make_config(corpus, steps=40)
    train(replace(config, data=replace(config.data, packing="document")), tmp_path / "run")
    how = ["-n", "20", "--steps", "6", "--seed", "3"]
    file = tmp_path / "s.jsonl"
    assert main(["sample", str(tmp_path / "run"), *how, "--json", str(file)]) == 0
    lengths = [len(json.loads(line)["tokens"]) for line in file.read_text().splitlines()]
    assert min(lengths) < 16, "some texts end early"
    found = []
    for place in (tmp_path / "run", file):
        out = tmp_path / "q.json"
        words = ["eval", "samples", str(place), *how, "--judge", "none", "--out", str(out)]
        assert main(words) == 0
        found.append(json.loads(out.read_text())["rows"]["samples"])
    assert found[0] == found[1]
    assert found[0]["tokens"] == sum(lengths)


def test_distinct_n_grams_are_of_as_many_texts():
    """Real texts that say the same: over twice as many of them half as many n-grams are new."""
    alike = Texts([""] * 16, [[1, 2, 3, 4]] * 16)
    assert describe(alike, 8).distinct["2"] == 3 / 24
    assert describe(alike).distinct["2"] == 3 / 48
    assert describe(alike, 8).texts == 16
    assert describe(alike, 8).distinct_texts == 8


def test_samples_from_a_file_are_judged_too(judge, tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_text('{"text": "w1 w2 w3 w2"}\n{"text": "w4 w4 w4 w4 w4"}\n')
    assert main(["eval", "samples", str(file), "--judge", str(judge)]) == 0
    result = json.loads((tmp_path / "s.quality.json").read_text())["rows"]["samples"]
    assert result["repetition"]["mean"] == pytest.approx((0 + 0.5) / 2)
    assert result["mauve"] is None


def test_tokens_and_words_are_not_mixed(judge, tmp_path):
    file, real = tmp_path / "s.jsonl", tmp_path / "real.jsonl"
    file.write_text(
        '{"text": "w1 w2", "tokens": [1, 2, 3, 4]}\n{"text": "w3\u2028w4", "tokens": [5]}\n'
    )
    real.write_text('{"text": "w1 w2 w3", "tokens": 3}\n{"text": "w4 w5"}\n')
    words = ["eval", "samples", str(file), "--judge", str(judge)]
    assert main(words) == 0
    found = json.loads((tmp_path / "s.quality.json").read_text())
    assert (found["unit"], found["rows"]["samples"]["tokens"]) == ("tokens", 5)
    assert main([*words, "--references", str(real)]) == 0
    found = json.loads((tmp_path / "s.quality.json").read_text())
    assert found["unit"] == "words"
    assert [r["tokens"] for r in found["rows"].values()] == [4, 5]
    assert "MAUVE needs 16 samples" in found["no_mauve"]


def test_the_command_has_its_own_default(capsys):
    with pytest.raises(SystemExit):
        main(["eval", "samples", "--help"])
    assert "default: 128" in capsys.readouterr().out


def test_a_file_that_is_not_text_is_named(judge, tmp_path, capsys):
    (tmp_path / "s.jsonl").write_bytes(b'{"text": "caf\xe9"}\n')
    assert main(["eval", "samples", str(tmp_path / "s.jsonl"), "--judge", str(judge)]) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "must have at least two samples, found 0"),
        ('{"text": "w1 w2"}\n', "must have at least two samples, found 1"),
        ('{"text": "w1"}\n{"txt": "w1"}\n', 'line 2 must be a JSON object with a "text"'),
        ('{"text": "w1"}\nnot json\n', "line 2 must be a JSON object"),
        ('{"text": 3}\n{"text": 4}\n', "line 1: the text must be a string"),
        ('{"text": "w1"}\n{"text": ""}\n', "finds no text of at least two tokens"),
    ],
)
def test_bad_samples_are_one_sentence(judge, tmp_path, capsys, content, says):
    file = tmp_path / "s.jsonl"
    file.write_text(content)
    assert main(["eval", "samples", str(file), "--judge", str(judge)]) == 2
    assert says in capsys.readouterr().err


def test_a_judge_that_is_not_there_is_refused_before_anything_is_written(tmp_path, capsys):
    file = tmp_path / "s.jsonl"
    file.write_text('{"text": "a b c"}\n{"text": "c b a"}\n')
    (tmp_path / "empty").mkdir()
    assert main(["eval", "samples", str(file), "--judge", str(tmp_path / "empty")]) == 2
    assert "could not be loaded" in capsys.readouterr().err
    assert not (tmp_path / "s.quality.json").exists()


def test_a_judge_that_gives_no_number_is_named(judge, monkeypatch):
    made = Judge(str(judge))
    made.parts[1].transformer.wte.weight.data.fill_(float("nan"))
    with pytest.raises(UserError, match="not a number"):
        made.score(["w1 w2 w3"])


def test_mauve_is_high_for_one_cloud_and_low_for_two():
    pytest.importorskip("mauve")
    points = np.random.default_rng(0).normal(size=(200, 8))
    same = mauve(points[:100], points[100:], seeds=2)
    apart = mauve(points[:100], points[100:] + 6, seeds=2)
    assert same.mean > 0.9
    assert apart.mean < 0.2
    assert not same.enough
    with pytest.raises(UserError, match="at least 16 texts on each side, found 3"):
        mauve(points[:3], points[:3])


def test_references_are_used_once():
    store = TokenStore(np.arange(240) % 250, np.array([240]), 240, "")  # every row is another
    rows = pack(store, byte_vocab(), 4, "wrap")
    found = references(rows, byte_vocab(), 50, 4, seed=0)
    assert len({tuple(t) for t in found.tokens}) == 50
    assert found.tokens == references(rows, byte_vocab(), 50, 4, seed=0).tokens
    assert found.tokens != references(rows, byte_vocab(), 50, 4, seed=1).tokens
    with pytest.raises(UserError, match="61 are needed: take fewer samples"):
        references(rows, byte_vocab(), 61, 4, seed=0)


def shuffled(text: str, seed: int) -> str:
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["smollm2", "minilm"])
def test_mauve_of_real_text_is_high_and_of_shuffled_text_low(features):
    """128 texts a side, real addresses; the language model sees word order, sentences less so."""
    view = Judge() if features == "smollm2" else Sentences()
    documents = open_source(recipe("laptop-mdlm").data, "train").documents()
    pieces = [p for d in documents for p in d.split("\n") if 300 < len(p) < 900]
    chosen = random.Random(0).sample(pieces, 256)
    points = view.features(chosen)
    same = mauve(points[:128], points[128:], seeds=3)
    assert same.mean >= 0.9
    mixed = mauve(view.features([shuffled(t, i) for i, t in enumerate(chosen[:128])]), points[128:])
    if features == "smollm2":
        assert mixed.mean <= 0.2
    else:
        assert mixed.mean < same.mean
