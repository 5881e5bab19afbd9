"""Tokens on disk, rows and their order depend on content alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adlm.config import DataConfig
from adlm.data import cache, encode
from adlm.data.cache import TokenStore
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.lengths import Lengths
from adlm.data.loader import Order, share
from adlm.data.pack import pack
from adlm.data.sources import open_source
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError


def build_with(workers: int, monkeypatch, tmp_path) -> tuple[np.ndarray, np.ndarray]:
    monkeypatch.setenv("ADLM_CACHE", str(tmp_path / f"cache-{workers}"))
    monkeypatch.setattr(encode, "CHUNK", 1 << 12)  # many chunks even on a small corpus
    config = DataConfig(tokenizer="byte")
    store = cache.load(open_source(config, "valid"), open_vocab(config), workers)
    return np.array(store.tokens), store.ends


def test_one_worker_makes_the_same_tokens_as_128(monkeypatch, tmp_path):
    (one, ends), (many, ends_many) = (build_with(w, monkeypatch, tmp_path) for w in (1, 128))
    assert np.array_equal(one, many)
    assert np.array_equal(ends, ends_many)
    assert len(ends) == 25


def test_the_store_holds_every_byte_of_the_text(text_file):
    config = DataConfig(name=str(text_file), tokenizer="byte")
    source, vocab = open_source(config, "train"), byte_vocab()
    store = cache.load(source, vocab)
    texts = list(source.documents())
    assert store.text_bytes == sum(len(t.encode()) for t in texts)
    assert vocab.decode(store.tokens[: store.ends[0] - 1]) == texts[0]
    assert (store.tokens[store.ends - 1] == vocab.eos).all()


def test_a_store_is_reused_until_the_content_changes(text_file, monkeypatch):
    config = DataConfig(name=str(text_file), tokenizer="byte")
    built = []
    real = cache.build
    monkeypatch.setattr(cache, "build", lambda *a: (built.append(1), real(*a)))
    for _ in range(2):
        first = cache.load(open_source(config, "train"), byte_vocab())
    assert len(built) == 1
    text_file.write_text(text_file.read_text().replace("union", "onion"))
    second = cache.load(open_source(config, "train"), byte_vocab())
    assert len(built) == 2
    assert first.key != second.key


def test_two_processes_build_one_store(text_file):
    code = (
        "import sys; from adlm.config import DataConfig; from adlm.data.corpus import *;"
        "c = DataConfig(name=sys.argv[1], tokenizer='bpe:300', length=16);"
        "r = open_rows(c, 'train', open_vocab(c)); print(r.store.key, len(r.store.tokens))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(text_file)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    answers = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(set(answers)) == 1
    made = [p for p in (cache.folder() / "tokens").iterdir() if p.is_dir()]
    assert len(made) == 1


def test_a_failed_build_leaves_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n' * 20 + "{broken\n")
    config = DataConfig(name=str(path), tokenizer="byte")
    with pytest.raises(UserError, match="line 21"):
        cache.load(open_source(config, "train"), byte_vocab())
    assert not [p for p in (cache.folder() / "tokens").iterdir() if p.is_dir()]


def test_a_cache_that_cannot_be_written_is_one_sentence(text_file, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ADLM_CACHE", str(blocked))
    with pytest.raises(UserError, match="ADLM_CACHE"):
        cache.load(open_source(DataConfig(name=str(text_file)), "train"), byte_vocab())


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.integers(2, 9),
    st.sampled_from(["wrap", "document"]),
)
def test_packing_keeps_every_token_once_and_in_order(lengths, length, packing):
    vocab = byte_vocab()
    ends = np.cumsum(lengths)
    tokens = np.arange(ends[-1]) % 250
    tokens[ends - 1] = vocab.eos
    rows = pack(TokenStore(tokens, ends, 0, ""), vocab, length, packing, "document")
    batch = rows.batch(np.arange(len(rows)))
    assert np.array_equal(batch.x[batch.valid].numpy(), tokens)
    assert (batch.x[~batch.valid] == vocab.pad).all()
    if packing == "document":
        firsts = set(rows.start.tolist())
        assert {0, *ends[:-1].tolist()} <= firsts
    place, size = rows.pieces(np.arange(len(rows)))
    counted = [np.bincount(s[s >= 0]) for s in batch.segment.numpy()]
    assert size.tolist() == np.concatenate(counted).tolist()
    assert np.bincount(place).tolist() == [len(c) for c in counted]
    assert rows.document.tolist() == [int((ends <= s).sum()) for s in rows.start]
    if packing == "document":
        counts = Lengths.of(rows.store, length).counts
        assert counts.tolist() == np.bincount(rows.count, minlength=length + 1)[1:].tolist()
    for x, segment in zip(batch.x, batch.segment, strict=True):
        inside = segment[segment >= 0]
        assert (inside.diff() >= 0).all()
        assert int(inside.max()) == int((x[segment >= 0][:-1] == vocab.eos).sum())


def test_a_block_larger_than_the_data_is_one_sentence(text_file):
    config = DataConfig(name=str(text_file), tokenizer="byte", length=10**6)
    with pytest.raises(UserError, match="larger than the train split"):
        open_rows(config, "train", byte_vocab())
    assert len(open_rows(replace(config, length=64), "train", byte_vocab())) > 1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 15), st.integers(0, 5), st.integers(1, 4))
def test_order_is_the_same_for_any_world_and_covers_each_pass(rows, batch, seed, world):
    order = Order(rows, batch, seed)
    steps = [order.step(s) for s in range(2 * rows)]
    fresh = Order(rows, batch, seed)
    assert np.array_equal(fresh.step(2 * rows - 1), steps[-1])  # no state: resume anywhere
    flat = np.concatenate(steps)[: 2 * rows]
    assert sorted(flat[:rows]) == sorted(flat[rows:]) == list(range(rows))
    parts = [steps[0][share(batch, rank, world)] for rank in range(world)]
    assert np.array_equal(np.concatenate(parts), steps[0])


def test_seeds_and_passes_differ():
    first, second = Order(100, 100, 0), Order(100, 100, 1)
    assert not np.array_equal(first.step(0), first.step(1))
    assert not np.array_equal(first.step(0), second.step(0))


@pytest.mark.parametrize("name", ["tokens-00000.bin", "ends.bin", "meta.json"])
def test_a_damaged_store_is_one_sentence(text_file, name):
    source = open_source(DataConfig(name=str(text_file)), "train")
    cache.load(source, byte_vocab())
    (home,) = (p for p in (cache.folder() / "tokens").iterdir() if p.is_dir())
    (home / name).write_bytes(b"x")
    with pytest.raises(UserError, match="is damaged; delete that folder"):
        cache.load(source, byte_vocab())


def test_caches_can_be_placed_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ADLM_CACHE", str(tmp_path / "x"))
    assert cache.folder() == tmp_path / "x"
    assert os.environ["ADLM_CACHE"] == str(tmp_path / "x")
