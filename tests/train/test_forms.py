"""Order, loops, self-conditioning and complementary masks in real runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.config import Config
from adlm.eval.likelihood import LikelihoodSettings, measure
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.train.run import train
from tests.conftest import make_config

FORMS: dict[str, dict] = {
    "order": {"process": {"order": -1.0, "times": "bell:0.5:0.1", "weight": "flat"}},
    "adlm-order": {
        "process": {"order": 1.0, "tilt": True, "masking": "bernoulli"},
        "model": {"anchor_blocks": 1},
    },
    "mdlm": {
        "process": {"complement": True, "weight": "flat"},
        "model": {"blocks": 3, "loops": 3, "recall": 0.5},
    },
}


def form(text_file, objective: str) -> Config:
    config = make_config(text_file, objective, eval_every=2, save_every=3)
    changes = FORMS[objective]
    return replace(
        config,
        process=replace(config.process, **changes.get("process", {})),
        model=replace(config.model, **changes.get("model", {})),
        optim=replace(config.optim, decay="constant"),
    )


@pytest.mark.parametrize("objective", FORMS)
def test_a_resumed_run_ends_in_the_same_bits_and_its_checkpoint_scores_alone(
    text_file, tmp_path, objective
):
    config = form(text_file, objective)
    assert train(config, tmp_path / "whole") == 0
    half = replace(config, train=replace(config.train, steps=5))
    assert train(half, tmp_path / "parts") == 0
    assert train(config, tmp_path / "parts", resume=True) == 0
    saved = [checkpoint.load(tmp_path / name) for name in ("whole", "parts")]
    left, right = (s.weights() for s in saved)
    assert all(torch.equal(left[k], right[k]) for k in left)
    ordered = config.process.order != 0
    assert (saved[0].counts() is not None) == ordered
    assert (load_model(saved[0]).counts is not None) == ordered
    found = measure(saved[0], LikelihoodSettings(limit=4, draws=2))
    assert found.bound
    assert found.ppl > 1


def test_the_number_of_loops_and_passes_is_an_option_of_the_evaluation(text_file, tmp_path):
    assert train(form(text_file, "mdlm"), tmp_path / "run") == 0
    saved = checkpoint.load(tmp_path / "run")
    usual = LikelihoodSettings(limit=4, draws=2)
    ppl = measure(saved, usual).ppl
    assert measure(saved, replace(usual, loops=3, passes=2)).ppl == ppl
    assert measure(saved, replace(usual, loops=1)).ppl != ppl
    assert measure(saved, replace(usual, passes=1)).ppl != ppl
