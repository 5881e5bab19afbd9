"""Samplers against exact distributions, and what they must never do."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

import adlm
import adlm.api
import adlm.errors
from adlm.cli import main
from adlm.config import Config, ModelConfig
from adlm.data.vocab import byte_vocab, make_vocab
from adlm.models.anchored import Anchored
from adlm.objectives.subs import zero_masking
from adlm.process.schedule import make_schedule
from adlm.registry import lookup, names
from adlm.samplers import template
from adlm.samplers.base import Canvas, Policy, make_policy, run
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.generate import samplers_for
from adlm.samplers.random import RowRandom
from adlm.samplers.remask import Remasking
from adlm.samplers.template import holes
from adlm.theory.enumerate import MASK, Table, distribution
from adlm.train.run import train
from tests.conftest import make_config, small_corpus
from tests.nn.test_trunk import model as random_trunk
from tests.objectives.test_ar import random_model

V = 3
PLAIN = [n for n in names("sampler") if not lookup("sampler", n).needs_anchors]
REMASKING = [n for n in PLAIN if issubclass(lookup("sampler", n), Remasking)]
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


def test_the_published_nucleus_is_tighter():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    for share, usual, tight in [(0.6, 2, 1), (0.81, 3, 2), (0.3, 1, 1), (0.96, 4, 3)]:
        assert (Draw(nucleus=share).probabilities(logits, 9) > 0).sum() == usual
        assert (Draw(nucleus=share, compat=True).probabilities(logits, 9) > 0).sum() == tight


@pytest.mark.parametrize("steps", [1, 3, 7, 40])
@pytest.mark.parametrize("schedule", ["log-linear", "cosine", "polynomial:3"])
@pytest.mark.parametrize("sampler", REMASKING)
def test_every_remasking_rule_keeps_the_marginal_of_its_schedule(sampler, schedule, steps):
    """P(visible at s) = (1 - sigma) P(visible at t) + unmask P(masked at t) = alpha_s, exactly."""
    policy = make_policy(sampler, make_schedule(schedule))
    visible = 0.0
    for t, s in policy.times(canvas(Network(Table.random(2, 0)), 1, 2), steps):
        move = policy.move(t, s, length=2)
        alpha_s = move.alpha_s
        sigma = min(policy.sigma(move), move.most)
        assert 0 <= sigma <= 1
        unmask = move.unmask(sigma)
        assert 0 <= unmask <= 1 + 1e-12
        visible = (1 - sigma) * visible + unmask * (1 - visible)
        assert visible == pytest.approx(alpha_s, abs=1e-12)
    assert visible == 1


@pytest.mark.parametrize("sampler", REMASKING)
def test_the_number_of_masks_in_a_real_run_is_binomial_at_every_step(sampler):
    length, rows, steps = 3, 4000, 8
    policy = make_policy(sampler, make_schedule("log-linear"))
    alphas = [policy.alphas(t, s)[1] for t, s in policy.times(None, steps)]

    def look(number: int, made: Canvas) -> None:
        if 0 < number < steps:
            alpha = alphas[number - 1]
            seen = torch.bincount((made.z == MASK).sum(dim=1), minlength=length + 1)
            exact = [
                rows * math.comb(length, k) * (1 - alpha) ** k * alpha ** (length - k)
                for k in range(length + 1)
            ]
            chi = sum((a - b) ** 2 / b for a, b in zip(seen.tolist(), exact, strict=True))
            assert chi < 21.1, (
                sampler,
                number,
            )  # 3 degrees of freedom, p = 0.0001: 56 are looked at

    made = canvas(Network(Table.random(length, 4)), rows, length, seed=11)
    run(made, policy, steps, look)
    assert not made.open.any()


def masked_shares(made: Canvas, policy: Policy, steps: int) -> list[float]:
    found: list[float] = []
    run(made, policy, steps, lambda n, c: found.append(float((c.z == MASK).double().mean())))
    return found


def test_the_published_conf_rule_leaves_more_masked_than_its_schedule_says():
    shares = {}
    for published in (False, True):
        policy = make_policy("remdm-conf", make_schedule("log-linear"), {"published": published})
        made = canvas(Network(Table.random(3, 4)), 20_000, 3)
        shares[published] = masked_shares(made, policy, 8)[4]
    assert shares[False] == pytest.approx(0.5, abs=0.01)
    assert shares[True] > 0.55


@pytest.mark.parametrize("eta", [0.1, 0.4])
def test_remasking_samples_the_enumerated_distribution(eta):
    table = Table.random(2, seed=3)
    made = canvas(Network(table), 20_000, 2)
    run(made, make_policy("remdm-cap", make_schedule("log-linear"), {"eta": eta}), 5)
    exact = {x: p for x, p in distribution(table, 5, sigma=eta).items() if MASK not in x}
    assert chi_square(made.z, exact) < LIMITS[3]


def test_remdm_loop_refines_at_a_constant_share():
    policy = make_policy("remdm-loop", make_schedule("log-linear"))
    assert policy.alphas(0.5, 0.4) == (0.9, 0.9)
    assert policy.alphas(1.0, 0.55) == (0.0, 0.9)
    assert policy.alphas(0.05, 0.0) == pytest.approx((0.9, 1.0))
    assert policy.sigma(policy.move(0.5, 0.4, 64)) == 0.02
    assert policy.sigma(policy.move(0.9, 0.8, 64)) == 0.0


@pytest.mark.parametrize("by", ["probability", "margin", "entropy"])
def test_confidence_writes_the_surest_position_first(by):
    table = Table.random(4, seed=5)
    logits = Network(table).hidden(torch.full((1, 4), MASK))[0]
    p = logits[:, :2].softmax(dim=1)
    made = canvas(Network(table), 1, 4, draw=Draw(temperature=0))
    order: list[int] = []
    policy = make_policy("confidence", make_schedule("log-linear"), {"by": by})
    run(made, policy, 4, lambda n, c: order.append((c.z != MASK)[0].nonzero()[:, 0].tolist()))
    surest = int(p.max(dim=1).values.argmax())  # of two tokens all three measures agree
    assert order[1] == [surest]
    assert [len(o) for o in order] == [0, 1, 2, 3, 4]


def test_a_threshold_writes_all_that_is_sure_at_once():
    table = Table.random(4, seed=5)
    p = Network(table).hidden(torch.full((1, 4), MASK))[0][:, :2].softmax(dim=1)
    sure = p.max(dim=1).values * 2 - 1  # margin
    made = canvas(Network(table), 1, 4)
    counts: list[int] = []
    options = {"by": "margin", "threshold": float(sure.sort().values[1])}
    policy = make_policy("confidence", make_schedule("log-linear"), options)
    run(made, policy, 9, lambda n, c: counts.append(int((c.z != MASK).sum())))
    assert counts[:2] == [0, 3]
    assert counts[-1] == 4


def anchored_canvas(rows: int, seed: int = 0, causal: bool = False) -> Canvas:
    torch.manual_seed(seed)
    config = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1)
    net = Anchored(11, config, causal).double()
    z = torch.full((rows, 6), 10)
    return Canvas(z, z < 0, 10, net.eval(), Draw(), RowRandom(seed, range(rows)))


def test_anchor_first_goes_where_the_anchor_network_is_surest():
    made = anchored_canvas(3)
    states = made.model.states(made.z)
    sure = made.model.anchor_head(states.anchor)[..., :10].softmax(dim=-1).amax(dim=-1)
    first: list[Tensor] = []
    policy = make_policy("anchor-first", make_schedule("log-linear"))
    run(made, policy, 6, lambda n, c: first.append((c.z != 10).clone()))
    assert torch.equal(first[1].double().argmax(dim=1), sure.argmax(dim=1))
    assert not made.open.any()


@pytest.mark.parametrize("seed", range(4))
def test_anchor_first_and_causal_keep_frozen_tokens_and_rows_apart(seed):
    for causal in (False, True):
        together = anchored_canvas(4, seed, causal)
        generator = torch.Generator().manual_seed(seed)
        together.frozen = torch.rand(4, 6, generator=generator) < 0.4
        given = torch.randint(0, 10, (4, 6), generator=generator)
        together.z = torch.where(together.frozen, given, 10)
        start = together.z.clone()
        write(together, causal)
        assert torch.equal(together.z[together.frozen], given[together.frozen])
        assert not together.open.any()
        for row in range(4):
            alone = anchored_canvas(1, seed, causal)
            alone.model = together.model
            alone.z, alone.frozen = start[row : row + 1], together.frozen[row : row + 1]
            alone.random = RowRandom(seed, range(row, row + 1))
            write(alone, causal)
            assert torch.equal(alone.z[0], together.z[row])


def write(made: Canvas, causal: bool) -> None:
    if causal:
        run_causal(made, bos=0)
    else:
        run(made, make_policy("anchor-first", make_schedule("log-linear")), 3)


def test_blocks_are_written_from_left_to_right_through_a_window():
    seen: list[int] = []

    class Spy(Network):
        def hidden(self, z: Tensor) -> Tensor:
            seen.append(z.shape[1])
            return super().hidden(z)

    policy = make_policy("blocks", make_schedule("log-linear"), {"size": 2, "context": 3})
    made = canvas(Spy(Table.random(3, 1)), 2, 7)

    def look(number: int, now: Canvas) -> None:
        written = (now.z != MASK).long()
        done = written.cumprod(dim=1).sum(dim=1)  # length of the unbroken beginning
        assert (written.sum(dim=1) - done <= 2).all()

    run(made, policy, 14, look)
    assert not made.open.any()
    assert set(seen) == {3}


def test_blocks_of_the_whole_length_are_the_inner_sampler():
    found = []
    for name, options in [("ancestral", {}), ("blocks", {"size": 4})]:
        made = canvas(Network(Table.random(4, 1)), 50, 4, seed=2)
        run(made, make_policy(name, make_schedule("log-linear"), options), 6)
        found.append(made.z)
    assert torch.equal(*found)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(PLAIN),
    st.integers(1, 6),
)
def test_frozen_tokens_are_never_touched_and_everything_else_is_written(seed, sampler, steps):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(0, 3, (4, 5), generator=generator)
    frozen = torch.rand(4, 5, generator=generator) < 0.4
    z = torch.where(frozen, z, MASK)
    made = Canvas(z, frozen, MASK, Network(Table.random(5, 1)), Draw(), RowRandom(seed, range(4)))  # type: ignore[arg-type]
    run(made, make_policy(sampler, make_schedule("cosine")), steps)
    assert torch.equal(made.z[frozen], z[frozen])
    assert not made.open.any()


@pytest.mark.parametrize("sampler", PLAIN)
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
    text = small_corpus(home)
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
        ("mdlm --sampler causal", "it has ancestral, blocks, confidence, dfm, first-hitting, f"),
        ("mdlm --sampler anchor-first", "a checkpoint of mdlm cannot be sampled by 'anchor-first'"),
        ("mdlm --sampler remdm-cap --eta 1.5", "--policy.eta must be in [0, 1], found 1.5"),
        ("mdlm --sampler remdm-loop --eta 0.2", "in [0, 0.111] at alpha_on 0.9, found 0.2"),
        ("mdlm --sampler remdm-loop --policy.t_off 0.7", "--policy.t_off must be above 0, below"),
        ("mdlm --sampler remdm-cap --policy.etta 1", "it has eta (0.04)"),
        ("mdlm --sampler remdm-cap --policy.eta high", "--policy.eta must be a number"),
        ("mdlm --sampler confidence --policy.by luck", "one of probability, margin, entropy"),
        ("mdlm --sampler blocks --policy.size 17", "at most the context, 16, found 17"),
        ("mdlm --sampler blocks --policy.inner blocks", "must be another sampler than blocks"),
        ("mdlm --sampler blocks --policy.inner anchor-first", "has no 'anchor-first'"),
        ("ar --eta 0.1", "the sampler causal has no options"),
        ("mdlm --prompt " + "x" * 40, "the prompt has 40 tokens, and only 16 fit"),
        ("mdlm -n 0", "--n must be at least 1"),
        ("mdlm --steps 0", "--steps must be at least 1"),
        ("mdlm --nucleus 0", "nucleus must be in (0, 1]"),
        ("mdlm --temperature -1", "temperature must be 0 or more"),
        ("mdlm --length 99", "to have 99 tokens, and only 16 fit (the sampler blocks"),
        ("mdlm --length 1", "--length must be at least 2"),
        ("mdlm --precision fp8", "--precision must be one of auto, bf16, fp32"),
    ],
)
def test_bad_input_is_one_sentence(runs, words, says, capsys):
    name, *rest = words.split()
    assert main(["sample", str(runs / name), *rest]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no hole here", "the template has no hole: write [MASK]"),
        ("a [MASK:40] b", "the text is to have 44 tokens, and only 16 fit"),
        ("a [MASK:0] b", "[MASK:0] must be a hole of at least 1 token"),
        ("a [MASK:99999999999999999999] b", "must be a hole of at least 1 token"),
    ],
)
def test_a_bad_template_is_one_sentence(runs, text, says, capsys):
    assert main(["infill", str(runs / "mdlm"), text]) == 2
    assert says in capsys.readouterr().err


def test_infilling_keeps_what_is_given(runs, capsys):
    assert main(["infill", str(runs / "mdlm"), "the [MASK:3] sea [MASK]!", "-n", "3"]) == 0
    texts = capsys.readouterr().out.split("---")[1:-1]
    assert len(texts) == 3
    assert all("the " in t and " sea " in t and t.rstrip().endswith("!") for t in texts)
    for name in ("ar", "mdlm"):
        made = adlm.load(runs / name).infill("[MASK]aw[MASK]", n=2, seed=3)
        assert len(made) == 2


def test_a_hole_takes_the_space_before_it_where_words_carry_theirs():
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    vocab = make_vocab(words)
    assert holes("a [MASK] b", vocab).tolist() == [0, vocab.mask, 1]
    vocab = byte_vocab()
    assert len(holes("a [MASK] b", vocab)) == 5


def test_long_texts_by_blocks(runs):
    model = adlm.load(runs / "mdlm")
    made = model.generate(prompt="the ", length=50, sampler="blocks", policy={"size": 8}, seed=1)
    tokens = model.vocab.encode(made)[0]
    assert made[0].startswith("the ")
    assert len(tokens) > 16


def test_a_document_ends_at_its_end(runs):
    model = adlm.load(runs / "ar")
    alone = replace(model.config, data=replace(model.config.data, packing="document"))
    made = model.write(template.after("", 16, model.vocab), adlm.api.settings(n=40))
    same = replace(model, config=alone).write(
        template.after("", 16, model.vocab), adlm.api.settings(n=40)
    )
    assert (made.tokens == same.tokens).all()
    assert (made.ends == 16).all()
    for row, end in zip(same.tokens, same.ends, strict=True):
        assert model.vocab.eos not in row[: end - 1]
        assert end == 16 or row[end - 1] == model.vocab.eos


def test_a_model_that_sees_the_noise_level_is_refused(runs):
    model = adlm.load(runs / "mdlm")
    shape = replace(model.config.model, time=8)
    process = replace(model.config.process, conditioned=True)
    timed = replace(model, config=replace(model.config, model=shape, process=process))
    with pytest.raises(adlm.errors.UserError, match="see the noise level"):
        timed.generate()


def test_unknown_settings_are_named(runs):
    with pytest.raises(adlm.errors.UserError, match=r"there is no setting 'step'.*steps"):
        adlm.load(runs / "mdlm").generate(step=3)


def test_each_objective_has_its_samplers():
    assert samplers_for(Config(objective="a2r")) == ["causal"]
    assert "anchor-first" not in samplers_for(Config(objective="mdlm"))
    anchored = Config(objective="adlm", model=ModelConfig(anchor_blocks=1))
    assert "anchor-first" in samplers_for(anchored)
