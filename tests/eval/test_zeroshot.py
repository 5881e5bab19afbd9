"""The zero-shot suite on real files: worker-independent, resumable, frank about what is missing."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from adlm.cli import main
from adlm.data.cache import TokenStore
from adlm.data.pack import MAP_BATCH, published
from adlm.data.vocab import byte_vocab
from adlm.eval import paper
from adlm.eval.zeroshot import SUITE
from adlm.registry import names
from adlm.train.run import train
from tests.conftest import make_config

REAL = "[ptb, wikitext-2, lambada, pubmed, scitldr]"


@pytest.fixture
def run(text_file, tmp_path):
    train(make_config(text_file, steps=2), tmp_path / "run")
    return tmp_path / "run"


def test_scores_do_not_depend_on_workers(run, shared, tmp_path, monkeypatch):
    """1 and 8 workers, each with an empty cache: equal to the last digit."""
    found = []
    for workers in (1, 8):
        monkeypatch.setenv("ADLM_CACHE", str(tmp_path / f"cache{workers}"))
        out = tmp_path / f"{workers}.json"
        words = ["eval", "zeroshot", str(run), "--data.dir", str(shared), "--sets", REAL]
        words += [
            "--data.workers",
            str(workers),
            "--limit",
            "20",
            "--draws",
            "2",
            "--out",
            str(out),
        ]
        assert main(words) == 0
        found.append(json.loads(out.read_text())["sets"])
    assert found[0] == found[1]
    assert len(found[0]) == 5
    assert found[0]["ptb"]["paper"]["ADLM 524B"] == 95.37


def test_missing_sets_are_named_and_a_second_run_does_nothing_again(
    run, shared, tmp_path, capsys, monkeypatch
):
    data = tmp_path / "data"
    shutil.copytree(shared / "ptb", data / "ptb")
    (data / "lambada").mkdir()
    (data / "lambada" / "lambada_development_plain_text.txt").write_text("")
    (data / "scitldr").mkdir()
    (data / "scitldr" / "dev.jsonl").write_text('{"wrong": 1}\n')
    out = tmp_path / "z.json"
    sets = "[ptb, lambada, scitldr, arxiv]"
    words = ["eval", "zeroshot", str(run), "--data.dir", str(data), "--sets", sets]
    words += ["--limit", "5", "--draws", "1", "--out", str(out)]
    assert main(words) == 0
    first = json.loads(out.read_text())
    assert list(first["sets"]) == ["ptb"]
    assert "is empty" in first["skipped"]["lambada"]
    assert "source" in first["skipped"]["scitldr"]
    assert "no arxiv/valid.jsonl" in first["skipped"]["arxiv"]
    assert "Skipped arxiv" in capsys.readouterr().out
    out.write_text(json.dumps({**first, "date": "2020-01-01"}))  # on another day
    monkeypatch.setattr("adlm.eval.zeroshot.score", lambda *a: pytest.fail("scored twice"))
    assert main(words) == 0
    assert json.loads(out.read_text())["sets"] == first["sets"]
    assert main([*words, "--sets", "[arxiv]"]) == 2
    assert json.loads(out.read_text())["sets"] == first["sets"], "what was scored stays"


def test_the_published_packing_depends_on_its_workers():
    generator = np.random.default_rng(0)
    lengths = generator.integers(3, 40, 2500)
    tokens = generator.integers(0, 200, lengths.sum())
    store = TokenStore(tokens, np.cumsum(lengths), int(lengths.sum()), "")
    vocab = byte_vocab()
    one = published(store, vocab, 16, workers=1)
    batch = one.batch(np.arange(len(one))).x.numpy()
    assert (batch[:, 0] == vocab.bos).all()
    assert (batch[:, -1] == vocab.eos).all()
    parts = [tokens[: lengths[:MAP_BATCH].sum()]]
    whole = parts[0][: len(parts[0]) // 14 * 14]
    assert (batch[: len(whole) // 14, 1:-1].ravel() == whole).all()
    begins = np.concatenate(([0], np.cumsum(lengths)))
    known = np.searchsorted(begins, 14 * np.arange(len(whole) // 14), side="right") - 1
    assert (one.document[: len(known)] == known).all(), "a row's document, for its standard error"
    dropped = [len(tokens) - 14 * len(published(store, vocab, 16, w)) for w in (1, 8)]
    assert 0 < dropped[0] < dropped[1]


def test_the_suite_is_of_known_sets():
    assert set(SUITE) <= set(names("dataset"))
    assert set(paper.ZERO_SHOT) <= set(SUITE)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--sets [ptbb]", "there is no data set 'ptbb'; did you mean 'ptb'"),
        ("--sets [ptb] --data.dir /nowhere", "the data folder /nowhere does not exist"),
        ("--length 99", "--length must be 3 to 16"),
        ("--draws 0", "--draws must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(run, words, says, capsys):
    assert main(["eval", "zeroshot", str(run), *words.split()]) == 2
    shown = capsys.readouterr()
    assert says in shown.err + shown.out
