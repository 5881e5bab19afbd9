"""Rows as the published code has them (data.compat)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adlm.config import Config, DataConfig
from adlm.data.cache import TokenStore
from adlm.data.pack import framed
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.objectives.base import make_objective
from adlm.objectives.mdlm import MaskedDiffusion
from adlm.recipes import recipe
from adlm.types import Noise


def test_published_rows_stand_between_bos_and_eos():
    vocab = byte_vocab()
    tokens = np.append(np.arange(10, 17), vocab.eos)
    store = TokenStore(np.concatenate((tokens, tokens[5:])), np.array([8, 11]), 9, "")
    rows = framed(store, vocab, 6, "wrap")
    batch, last = rows.batch(np.arange(len(rows))), [6, 6, 5]
    assert rows.count.tolist() == batch.scored.sum(1).tolist() == last
    assert (batch.x[:, 0] == vocab.bos).all()
    assert all(row[n - 1] == vocab.eos for row, n in zip(batch.x, last, strict=True))
    inner = [row[1 : n - 1] for row, n in zip(batch.x.numpy(), last, strict=True)]
    assert np.array_equal(np.concatenate(inner), store.tokens)  # every token once, in order
    assert not rows.shows_ends


def test_published_padding_is_hidden_and_seen_but_not_scored():
    vocab = byte_vocab()
    tokens = np.array([5, 6, vocab.eos, *range(7, 20), vocab.eos])
    rows = framed(TokenStore(tokens, np.array([3, 17]), 34, ""), vocab, 8, "document")
    batch = rows.batch(np.arange(2))
    assert batch.x[0].tolist() == [vocab.bos, 5, 6, vocab.eos, *[vocab.pad] * 4]
    assert batch.x[1].tolist() == [vocab.bos, *range(7, 13), vocab.eos]  # the rest is cut off
    assert rows.store.text_bytes == 20  # so are its bytes: 10 of 17 tokens are left
    assert batch.scored.sum(1).tolist() == rows.count.tolist() == [4, 8]
    view = MaskedDiffusion(Config(), vocab).view(batch, Noise(torch.ones(2), torch.rand(2, 8)))
    assert (view.z == vocab.mask).all()  # at t = 1 padding is hidden, too
    assert view.wanted.sum(1).tolist() == [4, 8]
    assert view.context.layout.segment is None  # and seen
    assert rows.pieces(np.arange(2))[1].tolist() == [2, 6]


@pytest.mark.parametrize("name", ["mdlm", "bd3lm", "d3pm", "sedd", "udlm", "gidd"])
def test_no_objective_scores_published_padding(name):
    config = recipe(f"laptop-{name}")
    vocab = byte_vocab()
    kind = make_objective(config, vocab)
    rows = framed(TokenStore(np.array([5, vocab.eos]), np.array([2]), 2, ""), vocab, 8, "document")
    batch = rows.batch(np.arange(1))
    noise = kind.noise(1, 8, torch.Generator().manual_seed(0))
    wanted = kind.view(batch, noise).wanted[:, :8]
    assert not (wanted & batch.filler).any()


def test_published_rows_are_not_for_pairs():
    with pytest.raises(UserError, match=r"data\.compat must be false with pairs"):
        DataConfig(packing="pair", compat=True)
