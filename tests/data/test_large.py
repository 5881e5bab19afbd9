"""A corpus larger than memory: several files, several processes, killed and resumed; its order."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from adlm.config import DataConfig
from adlm.data import build, cache, encode, tidy
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.loader import MANY, Ahead, Order, permuted
from adlm.data.pack import pack
from adlm.data.parts import Parts
from adlm.data.sources import open_source
from adlm.data.vocab import Vocab, byte_vocab
from adlm.data.words import Words, fits
from adlm.errors import UserError


def large(home: Path, lines: int = 4000) -> Path:
    """Two files of text; with the small parts below they make many."""
    (home / "corpus").mkdir()
    words = ["law", "peace", "naïve", "“quoted”", "the", "of", "states", "1789"]
    for part in range(2):
        made = [" ".join(words[(i * k + part) % 8] for k in range(1, 14)) for i in range(lines)]
        (home / "corpus" / f"train-{part}.txt").write_text("\n".join(made), encoding="utf-8")
    (home / "corpus" / "valid.txt").write_text("the law\n" * 50)
    (home / "corpus" / "test.txt").write_text("the law\n" * 50)
    return home / "corpus"


SMALL = "from adlm.data import build, encode; build.PART = 1 << 14; encode.CHUNK = 1 << 12;"
LOAD = (
    "import sys; from adlm.config import DataConfig; from adlm.data import cache;"
    "from adlm.data.sources import open_source; from adlm.data.vocab import byte_vocab;"
    "cache.load(open_source(DataConfig(name=sys.argv[1]), 'train'), byte_vocab(), 2)"
)
# an encoder that takes its time, so that kills come in the middle
SLOW = "import time; real = build.add_part;" + (
    "build.add_part = lambda *a: (time.sleep(0.03), real(*a))[1];"
)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PART", 1 << 14)
    monkeypatch.setattr(encode, "CHUNK", 1 << 12)


def stored(home: Path) -> dict[str, bytes]:
    (store,) = (p for p in (home / "tokens").iterdir() if p.is_dir())
    return {p.name: p.read_bytes() for p in sorted(store.iterdir())}


def load(corpus: Path, home: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> dict:
    monkeypatch.setenv("ADLM_CACHE", str(home))
    config = DataConfig(name=str(corpus), tokenizer="byte")
    cache.load(open_source(config, "train"), open_vocab(config), workers)
    return stored(home)


def test_processes_and_kills_leave_the_bytes_as_they_are(tmp_path, monkeypatch, small_parts):
    corpus = large(tmp_path)
    one = load(corpus, tmp_path / "one", monkeypatch, 1)
    assert len([name for name in one if name.startswith("tokens-")]) > 8
    assert one == load(corpus, tmp_path / "two", monkeypatch, 2)  # processes: more than FEW chunks
    killed = tmp_path / "killed"
    for parts in (2, 5):  # killed when so many are finished
        process = subprocess.Popen(
            [sys.executable, "-c", SMALL + SLOW + LOAD, str(corpus)],
            env={**os.environ, "ADLM_CACHE": str(killed)},
        )
        while process.poll() is None and len(finished(killed)) < parts:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was too fast to be killed"
        assert len(finished(killed)) >= parts
    assert one == load(corpus, killed, monkeypatch, 2)
    assert not list((killed / "tokens").glob("*.part"))


def finished(home: Path) -> list[int]:
    for draft in home.glob("tokens/*.part/draft.json"):
        return list(build.read_meta(draft).parts)
    return []


def test_what_is_finished_is_not_tokenised_again(tmp_path, monkeypatch, small_parts):
    corpus, seen = large(tmp_path), []
    real = encode.encode

    def counted(vocab: Vocab, texts: list[str]) -> encode.Encoded:
        seen.append(sum(map(len, texts)))
        if sum(seen) > 200_000 and len(seen) < 1000:
            seen.extend([0] * 1000)
            raise KeyboardInterrupt
        return real(vocab, texts)

    monkeypatch.setattr(encode, "encode", counted)
    with pytest.raises(KeyboardInterrupt):
        load(corpus, tmp_path / "cache", monkeypatch, 1)
    done = sum(finished(tmp_path / "cache"))
    assert done > 100_000
    before = sum(seen)
    load(corpus, tmp_path / "cache", monkeypatch, 1)
    whole = len(b"".join(p.read_bytes() for p in corpus.glob("train*")))
    assert sum(seen) - before < whole - 0.9 * done


def test_several_files_read_as_one_array(tmp_path, monkeypatch, small_parts):
    corpus = large(tmp_path)
    load(corpus, tmp_path / "cache", monkeypatch, 1)
    config = DataConfig(name=str(corpus), tokenizer="byte", length=100)
    rows = open_rows(config, "train", byte_vocab())
    store = rows.store
    assert isinstance(store.tokens, Parts)
    flat = np.concatenate(store.tokens.arrays)
    whole = pack(cache.TokenStore(flat, store.ends, 0, ""), byte_vocab(), 100, "wrap")
    index = np.random.default_rng(0).permutation(len(rows))[:300]
    assert (rows.batch(index).x == whole.batch(index).x).all()
    assert np.array_equal(store.tokens[5000:40000], flat[5000:40000])
    assert rows.scored_tokens == rows.scored.sum() == len(flat)
    assert rows.scored_in(index) == rows.scored[index].sum()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=6))
def test_known_words_give_the_tokenizers_ids_for_any_text(texts):
    vocab = gpt2()
    clean = [t.encode("utf-8", "replace").decode() for t in texts]
    plain = [e.tolist() for e in vocab.encode(clean)]
    assert [e.tolist() for e in Words(vocab.tokenizer).encode(clean)] == plain


@lru_cache
def gpt2() -> Vocab:
    return open_vocab(DataConfig(tokenizer="gpt2"))


def test_every_character_is_cut_as_the_tokenizer_cuts_it():
    vocab = gpt2()
    every = [chr(i) for i in range(0x3100) if not 0xD800 <= i < 0xE000]
    texts = [f"a{c}b {c} c{c}{c}  {c}d's\n{c}\n" for c in every]
    plain = vocab.encode(texts)
    for text, known, right in zip(texts, Words(vocab.tokenizer).encode(texts), plain, strict=True):
        assert known.tolist() == right.tolist(), repr(text)


def test_other_tokenizers_are_left_to_themselves():
    assert not fits(open_vocab(DataConfig(tokenizer="bert")).tokenizer)
    assert fits(byte_vocab().tokenizer)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**31 - 1), st.integers(0, 50))
def test_a_keyed_pass_has_every_row_once(rows, seed, epoch):
    found = permuted(np.arange(rows), rows, seed, epoch)
    assert sorted(found.tolist()) == list(range(rows))
    some = np.arange(rows)[::3]
    assert np.array_equal(permuted(some, rows, seed, epoch), found[::3])


def test_a_keyed_order_is_as_even_as_chance():
    """Where row 0 lands, and which row comes next, over many passes: chi-square."""
    rows, passes = 16, 1500
    every = np.stack([permuted(np.arange(rows), rows, 1, e) for e in range(passes)])
    for counts in (
        np.stack([np.bincount(every[:, p], minlength=rows) for p in range(rows)]),
        np.bincount((every[:, 1] - every[:, 0]) % rows, minlength=rows)[None, 1:],
    ):
        mean = passes / counts.shape[1]
        chi2 = ((counts - mean) ** 2 / mean).sum(axis=1)  # (.,) of about `rows` degrees of freedom
        assert chi2.max() < 2.9 * counts.shape[1]


def test_ten_billion_rows_are_ordered_without_a_list_of_them():
    order = Order(10**10, 512, seed=3)
    first, later = order.step(0), order.step(10**7)
    assert order.shuffle == "keyed"
    assert order._permutation.nbytes == 0
    assert len(set(first.tolist()) | set(later.tolist())) == 1024
    assert first.max() > 9e9


def test_what_was_shuffled_as_an_array_stays_so():
    """The numbers of the first version: runs resume and results can be made again."""
    assert Order(10, 10, seed=0).step(0).tolist() == [0, 7, 8, 6, 9, 5, 1, 3, 2, 4]
    assert Order(MANY, 4, 0).shuffle == "array"
    assert Order(MANY + 1, 4, 0).shuffle == "keyed"
    assert Order(MANY + 1, 4, 0, "array").shuffle == "array"


def test_batches_made_ahead_are_those_made_at_their_time():
    made = []

    def make(step: int) -> int:
        made.append(step)
        return step * step

    ahead = Ahead(make, last=5)
    assert [ahead.get(s) for s in (0, 1, 1, 4, 5)] == [0, 1, 1, 16, 25]
    ahead.thread.shutdown()
    assert max(made) == 5  # nothing beyond the last step


def test_an_error_comes_with_its_own_step():
    ahead = Ahead(lambda step: 1 // (2 - step), last=4)
    assert [ahead.get(0), ahead.get(1)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        ahead.get(2)
    assert ahead.get(3) == -1


def test_a_cache_of_the_first_version_is_read(text_file):
    """One file, tokens.bin, and no list of parts: the bytes of a new store's only part."""
    source = open_source(DataConfig(name=str(text_file)), "train")
    new = cache.load(source, byte_vocab())
    home = cache.folder() / "tokens" / new.key
    (home / "tokens-00000.bin").rename(home / "tokens.bin")
    old = f'{{"tokens": {len(new.tokens)}, "documents": {len(new.ends)}, "bytes": 9, '
    (home / "meta.json").write_text(old + '"dtype": "uint16", "source": "x", "split": "train"}')
    assert np.array_equal(cache.load(source, byte_vocab()).tokens, new.tokens)


def test_a_cache_that_cannot_be_written_serves_what_it_has(text_file, monkeypatch):
    config = DataConfig(name=str(text_file), tokenizer="bpe:300", length=16)
    made = open_rows(config, "train", open_vocab(config))

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(cache, "lock", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    assert open_rows(config, "train", open_vocab(config)).store.key == made.store.key
    with pytest.raises(UserError, match="set ADLM_CACHE"):
        open_rows(config, "valid", open_vocab(config))


def test_an_empty_variable_is_no_folder(monkeypatch):
    monkeypatch.setenv("ADLM_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache.folder() == Path("~/.cache/adlm").expanduser()


def test_a_corpus_of_one_line_is_told_what_it_lacks(tmp_path):
    (tmp_path / "one.txt").write_text("only one line")
    config = DataConfig(name=str(tmp_path / "one.txt"), tokenizer="byte", length=4)
    assert len(open_rows(config, "train", byte_vocab())) == 4
    with pytest.raises(UserError, match=r"too few documents for a valid split.*valid\.txt"):
        open_rows(config, "valid", byte_vocab())


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (models.BPE({"☃": 0}, []), "the tokenizer finds no token in the 32 document"),
        (models.WordLevel({"☃": 0}), "the tokenizer cannot encode this text: .*UNK"),
    ],
)
@pytest.mark.parametrize("few", [32, 1])  # by threads, by processes
def test_a_tokenizer_that_finds_nothing_is_told(text_file, tmp_path, monkeypatch, model, says, few):
    monkeypatch.setattr(encode, "FEW", few)
    Tokenizer(model).save(str(tmp_path / "none.json"))
    config = DataConfig(name=str(text_file), tokenizer=str(tmp_path / "none.json"))
    with pytest.raises(UserError, match=says):
        open_rows(config, "train", open_vocab(config))
    assert not [p for p in (cache.folder() / "tokens").iterdir() if p.is_dir()]


def test_what_killed_processes_left_is_swept_when_the_next_begins(tmp_path, text_file):
    home = cache.folder() / "tokens"
    for name in ("a.part", "b.part", "c.part", "d.0123.tmp"):
        (home / name).mkdir(parents=True)
        (home / name / "tokens-00000.bin").write_bytes(b"xx")
    note = build.Meta("uint16", tokens=1, documents=1, parts=(1,))
    for name in ("b", "c"):  # have a finished part: c's is old
        note.save(home / f"{name}.part" / "draft.json")
    then = time.time() - 86400 * (tidy.STALE + 1)
    os.utime(home / "c.part" / "draft.json", (then, then))
    cache.load(open_source(DataConfig(name=str(text_file)), "train"), byte_vocab())
    assert [p.name for p in home.iterdir() if p.suffix in (".part", ".tmp")] == ["b.part"]


def test_stores_used_least_recently_go_beyond_the_limit(text_file, monkeypatch):
    sources = [open_source(DataConfig(name=str(text_file)), s) for s in ("train", "valid", "test")]
    keys = []
    for age, source in enumerate(sources[:2]):
        keys.append(cache.load(source, byte_vocab()).key)
        then = time.time() - 1000 * (2 - age)
        os.utime(cache.folder() / "tokens" / keys[-1] / "meta.json", (then, then))
    size = sum(e.size for e in tidy.entries())
    monkeypatch.setenv("ADLM_CACHE_LIMIT", str(size / 1e9))
    keys.append(cache.load(sources[2], byte_vocab()).key)
    assert {e.path.name for e in tidy.entries()} == set(keys[1:])
    monkeypatch.setenv("ADLM_CACHE_LIMIT", "much")
    with pytest.raises(UserError, match="ADLM_CACHE_LIMIT must be a number of GB"):
        tidy.limit()


def test_streamed_data_of_the_hub_are_those_that_are_copied(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part in range(3):
        texts = [f"document {part} {i}" for i in range(20)]
        pq.write_table(pa.table({"text": texts}), tmp_path / f"train-{part}.parquet")
    plain = DataConfig(name=f"hf:{tmp_path}")
    stream = DataConfig(name=f"hf:{tmp_path}", stream=True)
    folder = DataConfig(name=str(tmp_path))
    for split in ("train", "valid"):
        copied, streamed, read = (
            list(open_source(c, split).documents()) for c in (plain, stream, folder)
        )
        assert copied == streamed == read
    mark = open_source(stream, "train").fingerprint
    assert mark == open_source(stream, "train").fingerprint
    pq.write_table(pa.table({"text": ["other"] * 21}), tmp_path / "train-1.parquet")
    assert mark != open_source(stream, "train").fingerprint
