"""A run keeps the order of rows that it began with, whatever a new run of its size would take."""

from __future__ import annotations

import json

import pytest

from adlm.data import loader
from adlm.models import checkpoint
from adlm.train.lm import LanguageModelling
from adlm.train.run import train
from tests.conftest import make_config


def order_after(config, run, monkeypatch, many: int) -> str:
    """The order that a run goes on with where a pass over more than `many` rows is keyed."""
    monkeypatch.setattr(loader, "MANY", many)
    workload = LanguageModelling(config, "cpu")
    workload.check(checkpoint.load(checkpoint.find(run)))
    return workload.order.shuffle


@pytest.mark.parametrize(("many", "shuffle"), [(1 << 20, "array"), (4, "keyed")])
def test_a_run_goes_on_in_its_own_order(text_file, tmp_path, monkeypatch, many, shuffle):
    monkeypatch.setattr(loader, "MANY", many)
    config = make_config(text_file, steps=2)
    assert train(config, tmp_path / "run") == 0
    state = json.loads((checkpoint.find(tmp_path / "run") / "state.json").read_text())
    assert state["shuffle"] == shuffle
    for now in (4, 1 << 20):
        assert order_after(config, tmp_path / "run", monkeypatch, now) == shuffle


def test_a_state_that_names_no_order_is_of_arrays():
    from adlm.train.workload import RunState

    assert RunState(step=1, seconds=0.0).shuffle == "array"


def test_batches_made_ahead_change_no_weight(text_file, tmp_path, monkeypatch):
    """Training with batches made when they are asked for ends in the same bits."""
    config = make_config(text_file, steps=6)
    assert train(config, tmp_path / "ahead") == 0
    monkeypatch.setattr(LanguageModelling, "portion", LanguageModelling.prepared)
    assert train(config, tmp_path / "then") == 0
    ahead, then = (checkpoint.load(tmp_path / name).training() for name in ("ahead", "then"))
    assert ahead.keys() == then.keys()
    assert all(ahead[name].equal(then[name]) for name in ahead)
