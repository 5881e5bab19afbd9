"""Samplers against exact distributions, and what they must never do."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import adlm
from adlm.cli import main
from adlm.config import Config
from adlm.objectives.subs import zero_masking
from adlm.process.schedule import make_schedule
from adlm.registry import lookup
from adlm.samplers.base import Canvas, run
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.generate import samplers_for
from adlm.samplers.random import RowRandom
from adlm.theory.enumerate import MASK, Table, distribution
from adlm.train.run import train
from tests.conftest import make_config
from tests.nn.test_trunk import model as random_trunk
from tests.objectives.test_ar import random_model

V = 3
LIMITS = {3: 16.3, 7: 24.3, 15: 37.7}  # chi-square at p = 0.001 by degrees of freedom


class Network(nn.Module):
    """The table of `adlm.theory` as a model: its hidden states are its logits."""

    def __init__(self, table: Table):
        super().__init__()
        size = (len(table.log_x), table.length, 1)
        logits = np.concatenate((table.log_x, np.zeros(size)), axis=2)
        self.logits_of = torch.from_numpy(logits)
        self.base = 3 ** torch.arange(table.length)
        self.head = nn.Identity()

    def hidden(self, z: Tensor) -> Tensor:
        return self.logits_of[(z * self.base).sum(dim=1)]


def canvas(model: nn.Module, rows: int, length: int, seed: int = 0, draw: Draw = Draw()) -> Canvas:
    z = torch.full((rows, length), MASK)
    frozen = torch.zeros_like(z, dtype=torch.bool)
    return Canvas(z, frozen, MASK, model, draw, RowRandom(seed, range(rows)))


def chi_square(z: Tensor, expected: dict[tuple[int, ...], float]) -> float:
    seen = Counter(map(tuple, z.tolist()))
    assert set(seen) <= {x for x, p in expected.items() if p > 0}
    return sum((seen[x] - p * len(z)) ** 2 / (p * len(z)) for x, p in expected.items() if p > 0)


def random_order(table: Table) -> dict[tuple[int, ...], float]:
    """p(x) when positions are written one by one in uniformly random order."""
    out: dict[tuple[int, ...], float] = {}
    orders = list(itertools.permutations(range(table.length)))
    for x in itertools.product((0, 1), repeat=table.length):
        total = 0.0
        for order in orders:
            z, log_p = [MASK] * table.length, 0.0
            for position in order:
                log_p += table.log_x[table.index(tuple(z)), position, x[position]]
                z[position] = x[position]
            total += math.exp(log_p)
        out[x] = total / len(orders)
    return out


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_ancestral_sampling_is_the_exact_reverse_process(steps):
    table = Table.random(3, seed=steps)
    made = canvas(Network(table), 20_000, 3)
    run(made, lookup("sampler", "ancestral")(make_schedule("log-linear")), steps)
    exact = {x: p for x, p in distribution(table, steps).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[7]


def test_first_hitting_is_the_process_in_random_order_and_the_limit_of_ancestral():
    table = Table.random(3, seed=9)
    exact = random_order(table)
    made = canvas(Network(table), 20_000, 3)
    run(made, lookup("sampler", "first-hitting")(make_schedule("log-linear")), 3)
    assert chi_square(made.z, exact) < LIMITS[7]
    assert (made.nfe == 3).all()
    many = distribution(table, 256)
    assert max(abs(many[x] - p) for x, p in exact.items()) < 0.01


def test_causal_sampling_is_the_enumerated_joint():
    model = random_model(causal=True)
    made = canvas(model, 8_000, 3)
    run_causal(made, bos=0)
    exact = {}
    for x in itertools.product((0, 1), repeat=3):
        log_p = 0.0
        for position in range(3):
            seen = torch.tensor([[0, *x[:position]]])
            log_p += zero_masking(model.logits(seen)[0, -1], MASK)[x[position]].item()
        exact[x] = math.exp(log_p)
    assert chi_square(made.z, exact) < LIMITS[7]


def test_the_cache_changes_nothing():
    net = random_trunk(causal=True)
    found = []
    for cached in (True, False):
        z = torch.full((3, 9), 19)
        frozen = torch.zeros_like(z, dtype=torch.bool)
        made = Canvas(z, frozen, 19, net, Draw(), RowRandom(1, range(3)))
        run_causal(made, bos=0, cached=cached)
        found.append(made.z)
    assert torch.equal(*found)


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


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["ancestral", "first-hitting", "confidence"]),
    st.integers(1, 6),
)
def test_frozen_tokens_are_never_touched_and_everything_else_is_written(seed, sampler, steps):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(0, 3, (4, 5), generator=generator)
    frozen = torch.rand(4, 5, generator=generator) < 0.4
    z = torch.where(frozen, z, MASK)
    made = Canvas(z, frozen, MASK, Network(Table.random(5, 1)), Draw(), RowRandom(seed, range(4)))  # type: ignore[arg-type]
    steps = 5 if sampler == "first-hitting" else steps
    run(made, lookup("sampler", sampler)(make_schedule("cosine")), steps)
    assert torch.equal(made.z[frozen], z[frozen])
    assert not made.open.any()


@pytest.mark.parametrize("sampler", ["ancestral", "first-hitting", "confidence"])
def test_a_row_does_not_depend_on_the_rows_beside_it(sampler):
    net = Network(Table.random(4, 2))
    policy = lookup("sampler", sampler)(make_schedule("log-linear"))
    together = canvas(net, 6, 4, seed=5)
    run(together, policy, 4)
    for row in range(6):
        z = torch.full((1, 4), MASK)
        alone = Canvas(z, z < 0, MASK, net, Draw(), RowRandom(5, range(row, row + 1)))  # type: ignore[arg-type]
        run(alone, policy, 4)
        assert torch.equal(alone.z[0], together.z[row])
        assert alone.nfe[0] == together.nfe[row]


def test_a_row_that_did_not_change_is_not_passed_again():
    made = canvas(Network(Table.random(3, 3)), 50, 3)
    run(made, lookup("sampler", "ancestral")(make_schedule("log-linear")), 200)
    assert made.nfe.max() <= 3
    assert made.nfe.min() >= 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    text = home / "corpus.txt"
    text.write_text("\n".join(f"the law of the {w} is the law" for w in ("union", "sea") * 200))
    for objective in ("ar", "mdlm"):
        train(make_config(text, objective, steps=3), home / objective)
    return home


def test_the_command_and_the_interface(runs, tmp_path, capsys):
    out = tmp_path / "s.jsonl"
    words = ["sample", str(runs / "mdlm"), "-n", "3", "--prompt", "the ", "--json", str(out)]
    assert main([*words, "--nucleus", "0.9", "--steps", "8"]) == 0
    assert "network passes a text" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3
    assert all(r["tokens"][:4] == list(b"the ") or r["text"].startswith("the ") for r in rows)
    model = adlm.load(runs / "ar")
    texts = model.generate(n=2, prompt="the ", seed=1)
    assert all(t.startswith("the ") for t in texts)
    assert model.generate(n=1, prompt="the ", seed=1) == texts[:1]
    assert model.generate(n=2, prompt="the ", seed=2) != texts


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("ar --sampler ancestral", "it has causal"),
        ("mdlm --sampler causal", "it has ancestral, confidence, first-hitting"),
        ("mdlm --prompt " + "x" * 40, "the prompt has 40 tokens, and only 16 fit"),
        ("mdlm -n 0", "--n must be at least 1"),
        ("mdlm --steps -1", "--steps must be at least 1"),
        ("mdlm --nucleus 0", "nucleus must be in (0, 1]"),
        ("mdlm --temperature -1", "temperature must be 0 or more"),
        ("mdlm --length 99", "--length must be 2 to 16"),
    ],
)
def test_bad_input_is_one_sentence(runs, words, says, capsys):
    name, *rest = words.split()
    assert main(["sample", str(runs / name), *rest]) == 2
    assert says in capsys.readouterr().err


def test_each_objective_has_its_samplers():
    assert samplers_for(Config(objective="a2r")) == ["causal"]
    assert "ancestral" in samplers_for(Config(objective="adlm"))
