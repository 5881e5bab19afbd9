"""Anchor rules against a plain Python count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adlm import registry
from adlm.config import AnchorConfig
from adlm.data.cache import TokenStore
from adlm.data.counts import CorpusCounts
from adlm.data.pack import pack
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.process.anchors import Anchors, needs_table, occurrences, reads_table
from adlm.registry import allow

VOCAB = byte_vocab()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 10**6), st.integers(1, 6))
def test_count_equals_counting(rows, length, seed, tau):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 6, (rows, length), generator=generator)
    valid = torch.arange(length) < torch.randint(1, length + 1, (rows, 1), generator=generator)
    found = Anchors(AnchorConfig(tau=tau), VOCAB)(x, valid)
    for row in range(rows):
        real = x[row][valid[row]].tolist()
        counts = Counter(real)
        assert found[row][valid[row]].tolist() == [counts[t] <= tau for t in real]
        assert not found[row][~valid[row]].any()


def table(rows_of_tokens: list[list[int]]) -> CorpusCounts:
    flat = np.array([t for row in rows_of_tokens for t in row])
    store = TokenStore(flat, np.cumsum([len(r) for r in rows_of_tokens]), 0, "")
    return CorpusCounts.count(pack(store, VOCAB, 4, "document"), VOCAB.size)


def test_the_table_counts_tokens_and_rows():
    made = table([[1, 1, 2, 3], [1, 2, 2], [5]])
    assert made.tokens[[1, 2, 3, 4, 5]].tolist() == [3, 3, 1, 0, 1]
    assert made.rows[[1, 2, 3, 4, 5]].tolist() == [2, 2, 1, 0, 1]
    assert made.total.item() == 3


def test_corpus_and_tfidf_and_frequency_pick_the_rare():
    made = table([[1, 1, 1, 2], [1, 1, 2, 2], [1, 3, 1, 1], [4, 1, 1, 2]])
    x = torch.tensor([[1, 2, 3, 4]])
    valid = x > 0
    rare = Anchors(AnchorConfig(rule="corpus", share=0.2), VOCAB)(x, valid, made)
    assert rare.tolist() == [[False, False, True, True]]
    best = Anchors(AnchorConfig(rule="tfidf", share=0.5), VOCAB)(x, valid, made)
    assert best.tolist() == [[False, False, True, True]]
    y = torch.tensor([[1, 1, 1, 3]])
    few = Anchors(AnchorConfig(rule="frequency", share=0.3), VOCAB)(y, y > 0)
    assert few.tolist() == [[False, False, False, True]]


def test_occurrences_of_one_token_are_anchors_together():
    x = torch.tensor([[5] * 8 + [6, 7]])
    found = Anchors(AnchorConfig(rule="tfidf", share=0.3), VOCAB)(x, x > 0, table([[1], [1]]))
    assert found.tolist() == [[True] * 8 + [False] * 2]


@pytest.mark.parametrize("rule", registry.names("anchors"))
def test_special_tokens_and_padding_are_never_anchors(rule):
    x = torch.tensor([[5, VOCAB.eos, VOCAB.mask, 6]])
    valid = torch.tensor([[True, True, True, False]])
    found = Anchors(AnchorConfig(rule=rule, share=1.0), VOCAB)(x, valid, table([[5, 6]]))
    assert not found[0, 1:].any()
    assert bool(found[0, 0]) == (rule != "none")


def wrong_shape(x, valid, config, table):
    return valid[:, :1]


def wrong_dtype(x, valid, config, table):
    return x


def raises(x, valid, config, table):
    raise ValueError("boom\nsecond line")


def evens(x, valid, config, table):
    return x % 2 == 0


def only_four_wide(x, valid, config, table):
    return torch.ones(len(x), 4, dtype=torch.bool)


@needs_table
def seen_twice(x, valid, config, table):
    return table.tokens[x] >= 2


def test_a_function_of_the_users_own_may_read_the_table():
    allow(f"{__name__}:seen_twice", f"{__name__}:evens")
    rule = Anchors(AnchorConfig(rule=f"{__name__}:seen_twice"), VOCAB)
    assert rule.reads_table
    assert reads_table(f"{__name__}:seen_twice")
    assert not reads_table(f"{__name__}:evens")
    assert not reads_table("no.such.module:rule")
    x = torch.tensor([[1, 2, 4]])
    assert rule(x, x > 0, table([[1, 2, 2]])).tolist() == [[False, True, False]]
    with pytest.raises(UserError, match="needs a table of the corpus"):
        rule(x, x > 0)


def test_a_function_of_the_users_own():
    here = __name__
    names = ("evens", "wrong_shape", "only_four_wide", "wrong_dtype", "raises")
    allow(*(f"{here}:{n}" for n in names), "math:pi", "no.such.module:rule")
    x = torch.tensor([[1, 2, 4]])
    found = Anchors(AnchorConfig(rule=f"{here}:evens"), VOCAB)(x, x > 0)
    assert found.tolist() == [[False, True, True]]
    with pytest.raises(
        UserError, match=r"bool tensor of shape \(1, 4\), found torch.bool.*\(1, 1\)"
    ):
        Anchors(AnchorConfig(rule=f"{here}:wrong_shape"), VOCAB)(x, x > 0)
    with pytest.raises(UserError, match=r"shape \(3, 7\), found torch.bool of shape \(3, 4\)"):
        Anchors(AnchorConfig(rule=f"{here}:only_four_wide"), VOCAB)
    with pytest.raises(UserError, match=r"found torch.int64"):
        Anchors(AnchorConfig(rule=f"{here}:wrong_dtype"), VOCAB)(x, x > 0)
    with pytest.raises(UserError, match="raised ValueError: boom"):
        Anchors(AnchorConfig(rule=f"{here}:raises"), VOCAB)
    with pytest.raises(UserError, match="must be a function"):
        Anchors(AnchorConfig(rule="math:pi"), VOCAB)
    with pytest.raises(UserError, match="cannot be imported"):
        Anchors(AnchorConfig(rule="no.such.module:rule"), VOCAB)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AnchorConfig(tau=0), "anchor.tau must be at least 1, found 0"),
        (lambda: AnchorConfig(gamma=-1), "gamma must be a finite number of 0 or more, found -1"),
        (lambda: AnchorConfig(gamma=float("inf")), "0 or more, found inf"),
        (lambda: AnchorConfig(share=0), "anchor.share"),
        (lambda: Anchors(AnchorConfig(rule="cuont"), VOCAB), "did you mean 'count'"),
    ],
)
def test_bad_settings_are_one_sentence(make, says):
    with pytest.raises(UserError, match=says):
        make()


def test_a_table_of_another_vocabulary_is_one_sentence():
    short = CorpusCounts(torch.ones(3), torch.ones(3), torch.tensor(1.0))
    x = torch.tensor([[1]])
    with pytest.raises(UserError, match="3 tokens, the vocabulary 258"):
        Anchors(AnchorConfig(rule="corpus"), VOCAB)(x, x > 0, short)


def test_occurrences_do_not_count_padding():
    x = torch.tensor([[0, 0, 0, 7]])
    assert occurrences(x, torch.tensor([[True, True, False, True]])).tolist()[0][:2] == [2, 2]


@pytest.mark.parametrize("warmup", [-0.1, 1.1])
def test_the_warmup_is_a_share_of_the_training(warmup):
    with pytest.raises(UserError, match=r"anchor.warmup must be in \[0, 1\]"):
        AnchorConfig(warmup=warmup)
