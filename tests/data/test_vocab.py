"""Tokenizers: known ids, round trips, special tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adlm.data.vocab import (
    Vocab,
    bert_vocab,
    byte_vocab,
    file_vocab,
    gpt2_vocab,
    make_vocab,
    train_bpe,
)
from adlm.errors import UserError

TEXTS = ["The state of the Union.", "Peace, peace!\n\nLaw and order — 1865."] * 20


@pytest.fixture(scope="module")
def trained() -> Vocab:
    return train_bpe(iter(TEXTS), 290)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_byte_round_trip(text):
    vocab = byte_vocab()
    ids = vocab.encode([text])[0]
    assert len(ids) == len(text.encode())
    assert vocab.decode(ids) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_bpe_round_trip(trained, text):
    assert trained.decode(trained.encode([text])[0]) == text


def test_trained_bpe_has_the_size_asked_for_and_is_reproducible(trained):
    assert trained.size == 290
    assert train_bpe(iter(TEXTS), 290).hash == trained.hash


def test_gpt2_from_files_and_from_the_package_is_gpt2(shared):
    for vocab in (gpt2_vocab([shared]), gpt2_vocab([])):
        assert vocab.size == 50258
        assert (vocab.eos, vocab.mask) == (50256, 50257)
        assert vocab.encode(["Hello world"])[0].tolist() == [15496, 995]
        assert vocab.encode(["\n\nI'm 123"])[0].tolist() == [198, 198, 40, 1101, 17031]


def test_bert_from_files_and_from_the_package_is_bert(shared):
    for vocab in (bert_vocab([shared]), bert_vocab([])):
        assert vocab.size == 30522
        assert (vocab.pad, vocab.bos, vocab.eos, vocab.mask) == (0, 101, 102, 103)
        assert vocab.encode(["Hello, unaffable World"])[0].tolist() == [
            7592,
            1010,
            14477,
            20961,
            3468,
            2088,
        ]


@pytest.mark.parametrize(
    "make", [byte_vocab, lambda: train_bpe(iter(TEXTS), 290), lambda: gpt2_vocab([])]
)
def test_a_text_cannot_smuggle_in_special_tokens(make):
    vocab = make()
    specials = {vocab.mask, vocab.bos, vocab.eos, vocab.pad}
    names = [vocab.tokenizer.id_to_token(i) for i in specials]
    for ids in vocab.encode([f"a {name} b" for name in names]):
        assert not specials & set(ids.tolist())


def test_save_and_load(tmp_path, trained):
    trained.save(tmp_path)
    again = Vocab.load(tmp_path)
    assert again.hash == trained.hash
    assert (
        again.encode(["<|mask|> law"])[0].tolist() == trained.encode(["<|mask|> law"])[0].tolist()
    )


def test_any_tokenizer_json(tmp_path, trained):
    (tmp_path / "t.json").write_text(trained.tokenizer.to_str())
    assert file_vocab(tmp_path / "t.json").hash == trained.hash


def test_ids_with_gaps_are_all_below_the_size():
    from tokenizers import Tokenizer, models

    vocab = make_vocab(Tokenizer(models.WordLevel({"a": 0, "b": 900}, unk_token="a")))
    assert vocab.size == 1 + max(900, vocab.mask, vocab.eos)


def test_bad_tokenizers_are_one_sentence(tmp_path, trained):
    (tmp_path / "t.json").write_text("{not json")
    with pytest.raises(UserError, match="is not JSON"):
        file_vocab(tmp_path / "t.json")
    with pytest.raises(UserError, match="no tokenizer file"):
        file_vocab(tmp_path / "missing.json")
    with pytest.raises(UserError, match="must be from 260"):
        train_bpe(iter(TEXTS), 100)
    trained.save(tmp_path)
    byte_vocab().save(tmp_path / ".." / tmp_path.name)
    (tmp_path / "tokenizer.json").write_text(trained.tokenizer.to_str())
    with pytest.raises(UserError, match="not the tokenizer of this checkpoint"):
        Vocab.load(tmp_path)


def test_half_a_surrogate_pair_does_not_stop_a_corpus():
    vocab = byte_vocab()
    assert vocab.decode(vocab.encode(["a\ud800b"])[0]) == "a?b"
