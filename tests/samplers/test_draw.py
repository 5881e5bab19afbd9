"""Drawing one token from a distribution."""

from __future__ import annotations

import torch

from adlm.samplers.categorical import Draw


def test_draws_follow_their_probabilities():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, 1.0]])
    count = 1_000_000
    u = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for draw in (Draw(), Draw(temperature=0.5), Draw(top_k=2), Draw(nucleus=0.7)):
        p = draw.probabilities(logits, forbid=3)[0]
        tokens = torch.searchsorted(p.cumsum(0), u, right=True)
        seen = torch.bincount(draw(logits.expand(4096, -1), u[:4096], 3)[0], minlength=5)
        assert torch.equal(seen, torch.bincount(tokens[:4096], minlength=5))
        counts = torch.bincount(tokens, minlength=5).double()
        live = p > 0
        assert counts[~live].sum() == 0
        chi = ((counts - count * p)[live] ** 2 / (count * p[live])).sum()
        assert chi < 18.5  # at most 4 degrees of freedom, p = 0.001


def test_nucleus_and_top_k_keep_the_likeliest():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (Draw(nucleus=0.6).probabilities(logits, 9) > 0).tolist() == [[True, True, False, False]]
    assert (Draw(nucleus=0.5).probabilities(logits, 9) > 0).tolist() == [
        [True, False, False, False]
    ]
    assert (Draw(top_k=3).probabilities(logits, 9) > 0).tolist() == [[True, True, True, False]]
    assert Draw(temperature=0).probabilities(logits, 0).argmax() == 1


def test_the_published_nucleus_is_tighter():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    for share, usual, tight in [(0.6, 2, 1), (0.81, 3, 2), (0.3, 1, 1), (0.96, 4, 3)]:
        assert (Draw(nucleus=share).probabilities(logits, 9) > 0).sum() == usual
        assert (Draw(nucleus=share, compat=True).probabilities(logits, 9) > 0).sum() == tight
