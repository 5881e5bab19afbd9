"""AR's NLL is exactly the chain rule, and its rows sum to its total."""

from __future__ import annotations

import torch

from adlm.config import Config
from adlm.models.denoiser import Denoiser
from adlm.nn.config import TrunkConfig
from adlm.objectives.base import make_objective
from adlm.objectives.subs import zero_masking
from adlm.types import Batch
from tests.objectives.test_nelbo import MASK, VOCAB


def random_model(causal: bool, vocab: int = 3) -> Denoiser:
    torch.manual_seed(3)
    model = Denoiser(vocab, TrunkConfig(width=8, blocks=2, heads=2, conv=3), causal).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def test_ar_is_the_chain_rule_token_by_token():
    model = random_model(causal=True)
    x = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 0]])
    valid = torch.tensor([[True] * 4, [True, True, True, False]])
    score = make_objective(Config(objective="ar"), VOCAB).score(model, Batch(x, valid), None)
    for row in range(2):
        expected = 0.0
        for position in range(int(valid[row].sum())):
            prefix = torch.cat((torch.tensor([VOCAB.bos]), x[row, :position]))[None]
            log_p = zero_masking(model.logits(prefix)[0, -1], MASK)
            expected -= log_p[x[row, position]].item()
        assert abs(score.rows[row].item() - expected) < 1e-10
    assert abs(score.bound.item() - score.rows.sum().item()) < 1e-10


def test_ar_probabilities_of_all_sequences_sum_to_one():
    model = random_model(causal=True)
    x = torch.cartesian_prod(*[torch.arange(2)] * 4)  # every sequence of the two tokens
    score = make_objective(Config(objective="ar"), VOCAB).score(model, Batch(x, x >= 0), None)
    assert abs((-score.rows).exp().sum().item() - 1) < 1e-10


def test_zero_masking_gives_distributions_without_the_mask_and_leaves_its_input():
    logits = torch.randn(2, 3, 3)
    before = logits.clone()
    p = zero_masking(logits, MASK).exp()
    assert torch.allclose(p.sum(-1), torch.ones(2, 3))
    assert (p[..., MASK] == 0).all()
    assert torch.equal(logits, before)
