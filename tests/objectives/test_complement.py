"""Complementary masks: every row twice, and together every token is predicted once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig, TrainConfig
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator
from adlm.objectives.mdlm import of_bound
from adlm.types import Batch

VOCAB = byte_vocab()
FLAT = ProcessConfig(times="bell:0.5:0.1", weight="flat", complement=True)


def config(process: ProcessConfig, objective: str = "mdlm", batch: int = 8) -> Config:
    model = ModelConfig(width=8, blocks=1, heads=2)
    return Config(objective, DataConfig(length=12), model, process, train=TrainConfig(batch=batch))


def rows(padded: bool = False) -> Batch:
    x = torch.arange(4 * 12).view(4, 12).repeat_interleave(2, dim=0)
    valid = torch.ones_like(x, dtype=torch.bool)
    if padded:
        valid[2:4, 7:] = False
    return Batch(x, valid)


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_pair_of_rows_hides_every_token_once(masking, padded):
    made = make_objective(config(replace(FLAT, masking=masking)), VOCAB)
    batch = rows(padded)
    view = made.view(batch, made.noise(8, 12, torch.Generator().manual_seed(0)))
    hidden = view.wanted.long()
    assert torch.equal(hidden[0::2] + hidden[1::2], batch.valid[0::2].long())
    assert torch.equal(view.z == VOCAB.mask, view.wanted)
    assert torch.equal(torch.where(view.wanted, batch.x, view.z), batch.x)
    assert hidden[0::2].sum() > 0
    assert (view.weight == 2).all()


def test_the_first_of_a_pair_is_masked_as_ever():
    plain = make_objective(config(replace(FLAT, complement=False)), VOCAB)
    made = make_objective(config(FLAT), VOCAB)
    batch = rows()
    ours = made.view(batch, made.noise(8, 12, torch.Generator().manual_seed(0)))
    right = plain.view(batch[0:4], plain.noise(4, 12, torch.Generator().manual_seed(0)))
    assert torch.equal(ours.wanted[0::2], right.wanted)


def test_what_is_scored_has_no_complement():
    assert not of_bound(config(FLAT)).process.complement
    assert evaluator(config(FLAT), VOCAB).bound
    assert not make_objective(config(FLAT), VOCAB).bound


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (config(ProcessConfig(complement=True)), "process.weight must be flat or clamp"),
        (config(FLAT, batch=7), "train.batch must be even, found 7"),
        (config(FLAT, "bd3lm"), "the objective bd3lm has no process.complement"),
        (config(FLAT, "ar"), "the objective ar has no process.complement"),
    ],
)
def test_senseless_settings_are_one_sentence(made, said):
    with pytest.raises(UserError, match=said):
        make_objective(made, VOCAB)
