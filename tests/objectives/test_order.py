"""Anchors in the process: the bound against its definition, and what it must be at order 0."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from adlm.config import AnchorConfig, Config, DataConfig, ModelConfig, ProcessConfig
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.nn import chunked as chunks
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator
from adlm.process.order import exponents, hide_in_order, rarity
from adlm.types import Batch, Noise
from tests.objectives.tiny import MASK, REAL, STATES, TEXTS, L, V, integral, network, number

VOCAB = SimpleNamespace(mask=MASK, size=V, bos=0, eos=0, pad=0)
COUNTS = CorpusCounts(
    torch.tensor([7.0, 0.0, 2.0, 1.0]).double(), torch.ones(V).double(), torch.tensor(3.0).double()
)
DRAWS = 40_000
FORMS = {
    "order 1": ProcessConfig(order=1.0),
    "order -1": ProcessConfig(order=-1.0),
    "bernoulli": ProcessConfig(order=-1.0, masking="bernoulli"),
    "tilt 1": ProcessConfig(order=1.0, tilt=True),
    "tilt -2": ProcessConfig(order=-2.0, tilt=True),
    "tilt, bernoulli": ProcessConfig(order=-1.0, tilt=True, masking="bernoulli"),
    "anchored": ProcessConfig(order=1.0),
}


def config(process: ProcessConfig, objective: str = "order") -> Config:
    model = ModelConfig(width=8, blocks=1, heads=2, anchor_blocks=int("adlm" in objective))
    return Config(objective, DataConfig(length=L), model, process)


def timeless(seed: int):
    """A tiny network that does not see the noise level."""
    made = network("mdlm", seed)
    made.trunk.time = made.trunk.modulation = None
    for block in made.trunk.blocks:
        block.modulation = None
    return made


def through_anchors(seed: int):
    """The same with an anchor network before it."""
    torch.manual_seed(seed)
    made = build_model(config(ProcessConfig(), "adlm-order"), V).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return made.eval()


class Listed:
    """The reverse process over all states, from rates and marginals of each token."""

    def __init__(self, process: ProcessConfig, model) -> None:
        self.process, self.model = process, model
        self.k = exponents(config(process), VOCAB, COUNTS)

    @torch.no_grad()
    def mu(self, t: float) -> Tensor:
        """(S, L, V) what the network says of a hidden token: by Bayes' rule, where it is tilted."""
        logits = self.model.logits(STATES)
        logits[..., MASK] = -torch.inf
        p = logits.softmax(dim=-1)
        if self.process.tilt:
            p = p * t**self.k
        return p / p.sum(dim=-1, keepdim=True)

    def rates(self, t: float) -> Tensor:
        """(S, L, V) at which a hidden token becomes v: -d log t^k / dt of those that are v."""
        return torch.where((STATES == MASK)[..., None], self.mu(t) * self.k / t, 0.0)

    def cost(self, x: Tensor, t: float) -> float:
        """E_z of sum_v [ model - true log model + true (log true - 1) ] over the rates."""
        hidden = t ** self.k[x]  # (L,)
        masked = STATES == MASK  # (S, L)
        shown = x == STATES
        chance = torch.where(masked, hidden, (1 - hidden) * shown).prod(dim=1)  # (S,)
        model = self.rates(t)
        true = torch.zeros_like(model)
        for place in range(L):
            true[:, place, x[place]] = masked[:, place] * self.k[x[place]] / t
        each = model + torch.special.xlogy(true, true) - torch.special.xlogy(true, model) - true
        return float((chance * each.sum(dim=(1, 2))).sum())

    def outcome(self, steps: int = 500) -> Tensor:
        """(S,) the distribution of texts at t = 0."""
        p = (STATES == MASK).all(dim=1).double()
        edges = 1e-14 ** np.linspace(0, 1, steps + 1)  # even in -log t
        for high, low in itertools.pairwise(edges):
            at = float((high * low) ** 0.5)
            move, made = self.rates(at), torch.zeros(len(STATES), len(STATES)).double()
            for place, v in itertools.product(range(L), REAL):
                to = torch.arange(len(STATES)) + (v - STATES[:, place]) * V ** (L - 1 - place)
                made[torch.arange(len(STATES)), to.clamp(0, len(STATES) - 1)] += move[:, place, v]
            made -= torch.diag(made.sum(dim=1))
            p = p @ torch.matrix_exp(made * at * float(np.log(high / low)))
        return p


def estimated(made: Config, model, x: Tensor) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(0)
    t = (torch.arange(DRAWS) + 1 - torch.rand(DRAWS, generator=generator)) / DRAWS
    rows = x.expand(DRAWS, -1)
    objective = evaluator(made, VOCAB, COUNTS)
    if made.process.masking == "bernoulli":
        objective = make_objective(made, VOCAB, COUNTS)
    assert objective.bound
    batch = Batch(rows, torch.ones_like(rows, dtype=torch.bool))
    noise = Noise(t.double(), torch.rand(DRAWS, L, generator=generator))
    with torch.no_grad():
        found = objective.score(model, batch, noise).rows.numpy()
    pairs = found.reshape(-1, 2)
    return found.mean(), float(np.sqrt(((pairs[:, 0] - pairs[:, 1]) ** 2).sum() / DRAWS**2))


@pytest.mark.parametrize("form", FORMS)
def test_the_bound_meets_its_definition_and_is_no_less_than_minus_log_p(form):
    anchored, process = form == "anchored", FORMS[form]
    made = config(process, "adlm-order" if anchored else "order")
    model = through_anchors(1) if anchored else timeless(1)
    listed = Listed(process, model)
    p = listed.outcome()
    assert p[(STATES != MASK).all(dim=1)].sum() == pytest.approx(1.0, abs=1e-3)
    for x in TEXTS[[0, 5]]:
        exact = integral(lambda t, x=x: listed.cost(x, t))
        mean, error = estimated(made, model, x)
        assert abs(mean - exact) < 3 * error + 1e-3 * exact
        assert error < 0.03 * exact
        assert exact >= -float(p[number(x)].log()) - 1e-3


def scored(objective: str, process: ProcessConfig, counts: CorpusCounts | None = None):
    torch.manual_seed(0)
    x = TEXTS[torch.randint(0, len(TEXTS), (64,))]
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    made = make_objective(config(process, objective), VOCAB, counts)
    model = timeless(3)
    noise = made.noise(64, L, torch.Generator().manual_seed(1))
    score = made.score(model, batch, noise)
    grads = torch.autograd.grad(score.bound, list(model.parameters()), allow_unused=True)
    return score, [g for g in grads if g is not None]


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
def test_order_0_is_mdlm_to_the_last_bit(masking):
    process = ProcessConfig(masking=masking, times="bell:0.5:0.1", weight="flat")
    (ours, ours_d), (right, right_d) = scored("order", process), scored("mdlm", process)
    assert torch.equal(ours.rows, right.rows)
    assert all(torch.equal(a, b) for a, b in zip(ours_d, right_d, strict=True))


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
def test_equal_exponents_are_mdlm(masking):
    """The general path, with exponents that happen to be 1."""
    even = CorpusCounts(*(torch.ones(s).double() for s in (V, V, ())))
    process = ProcessConfig(masking=masking, order=1e-9)
    ours, ours_d = scored("order", process, even)
    right, right_d = scored("mdlm", replace(process, order=0.0))
    assert torch.allclose(ours.rows, right.rows)
    for a, b in zip(ours_d, right_d, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_rare_tokens_wait_longer_and_the_sign_turns_it():
    k = exponents(config(ProcessConfig(order=1.0)), VOCAB, COUNTS)
    assert k[3] > k[2] > k[0]
    assert k[MASK] == 2.0  # never seen: the rarest
    back = exponents(config(ProcessConfig(order=-1.0)), VOCAB, COUNTS)
    assert torch.allclose(k * back, torch.ones(V).double())
    mean = (rarity(COUNTS.tokens) * COUNTS.tokens).sum() / COUNTS.tokens.sum()
    assert mean == pytest.approx(0.0, abs=1e-12)  # over the corpus


def test_anchors_have_one_exponent_and_other_tokens_another():
    vocab = byte_vocab()
    tokens = torch.arange(vocab.size).double()
    counts = CorpusCounts(tokens, tokens, tokens.sum())
    anchor = AnchorConfig(rule="corpus", share=0.3)
    made = Config("order", process=ProcessConfig(order=1.0, order_by="anchors"), anchor=anchor)
    k = exponents(made, vocab, counts)
    assert set(k.tolist()) == {0.5, 2.0}
    assert k[1] == 2.0
    assert k[200] == 0.5


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (ProcessConfig(order=1.0, steps=4, masking="bernoulli"), "continuous time"),
        (ProcessConfig(order=1.0, schedule="cosine"), "log-linear"),
        (ProcessConfig(order=1.0, order_by="anchors"), "must be corpus"),
        (ProcessConfig(order=1.0, complement=True, weight="flat"), "has no process.complement"),
    ],
)
def test_senseless_settings_are_one_sentence(process, said):
    with pytest.raises(UserError, match=said):
        make_objective(config(process), VOCAB, COUNTS)


@pytest.mark.parametrize("objective", ["mdlm", "ar", "bd3lm", "sedd", "adlm"])
def test_an_objective_without_an_order_refuses_one(objective):
    made = replace(config(ProcessConfig(order=1.0), objective), data=DataConfig(length=4))
    with pytest.raises(UserError, match=f"the objective {objective} has no process.order"):
        make_objective(made, VOCAB)


def test_without_counts_it_says_what_is_missing():
    made = make_objective(config(ProcessConfig(order=1.0)), VOCAB)
    with pytest.raises(UserError, match="needs the counts of the training corpus"):
        _ = made.exponents


def test_the_loss_in_chunks_is_the_loss_at_once(monkeypatch):
    process = ProcessConfig(order=1.0, tilt=True, masking="bernoulli")
    whole, whole_d = scored("order", process, COUNTS)
    monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 3 * V)  # three positions at a time
    cut, cut_d = scored("order", process, COUNTS)
    assert torch.allclose(whole.rows, cut.rows)
    for a, b in zip(whole_d, cut_d, strict=True):
        assert torch.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("weight", ["flat", "clamp:1.5"])
def test_the_weight_of_training_leaves_the_best_network_that_of_the_bound(weight):
    """mu(v) in a state is best at the share of v in the weights of all texts that lead there."""
    x = TEXTS[torch.randint(0, len(TEXTS), (600,), generator=torch.Generator().manual_seed(0))]
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    shares = []
    for how in ("bound", weight):
        made = make_objective(config(ProcessConfig(order=1.0, weight=how)), VOCAB, COUNTS)
        assert made.bound == (how == "bound")
        view = made.view(batch, made.noise(len(x), L, torch.Generator().manual_seed(1)))
        best = torch.zeros(len(STATES), L, V).double()
        for z, text, counts in zip(view.z, x, view.weight, strict=True):
            best[number(z), torch.arange(L), text] += counts
        shares.append(best / best.sum(dim=-1, keepdim=True))
    bound, trained = (s[~s.isnan()] for s in shares)
    assert torch.allclose(bound, trained, atol=1e-6)
    assert ((bound > 0.01) & (bound < 0.99)).any()


def test_in_training_flat_weights_put_2_for_n_over_j():
    process = ProcessConfig(order=1.0, times="bell:0.5:0.1", weight="flat")
    made = make_objective(config(process), VOCAB, COUNTS)
    assert not made.bound
    batch = Batch(TEXTS, torch.ones_like(TEXTS, dtype=torch.bool))
    view = made.view(batch, made.noise(len(TEXTS), L, torch.Generator().manual_seed(0)))
    k = torch.where(view.wanted, made.exponents[TEXTS], 0.0).sum(dim=1)
    assert torch.allclose(view.weight, 2 * view.wanted.sum(dim=1) / k)
    assert evaluator(config(process), VOCAB, COUNTS).bound


def test_the_order_of_chance_is_spread_over_the_corpus_as_rarity_is():
    chance = config(ProcessConfig(order=1.0, order_by="chance"))
    tokens = torch.arange(1.0, 1001.0).double()
    vocab, counts = SimpleNamespace(size=1000), CorpusCounts(tokens, tokens, tokens.sum())
    r, share = exponents(chance, vocab, counts).log2(), tokens / tokens.sum()
    mean = (share * r).sum()
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert (share * r**2).sum() ** 0.5 == pytest.approx(3**-0.5, abs=1e-3)  # even on [-1, 1]
    assert abs(torch.corrcoef(torch.stack([r, tokens]))[0, 1]) < 0.1


def test_tokens_that_wait_equally_are_hidden_equally_often_however_short():
    x, free = torch.zeros(20_000, 4, dtype=torch.long), torch.ones(20_000, 4, dtype=torch.bool)
    u = torch.rand(20_000, 4, generator=torch.Generator().manual_seed(0))
    noised, _ = hide_in_order(
        x, free, Noise(torch.full((20_000,), 0.2), u), 9, torch.full((1,), 2.0**-8)
    )
    share = noised.masked.double().mean(dim=0)
    assert torch.allclose(share, torch.full((4,), 0.25).double(), atol=0.015)


def test_at_least_one_token_is_hidden_at_any_time():
    x, free = torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=torch.bool)
    noised, _ = hide_in_order(x, free, Noise(torch.zeros(1), torch.rand(1, 3)), 9, torch.ones(2))
    assert noised.masked.sum() == 1
    assert noised.weight.isfinite().all()


def test_a_row_without_a_free_token_has_a_time_above_zero():
    x, free = torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 3, dtype=torch.bool)
    noise = Noise(torch.tensor([0.5]), torch.rand(1, 3))
    noised, t = hide_in_order(x, free, noise, 9, torch.ones(2))
    assert not noised.masked.any()
    assert t.item() > 0  # its logarithm is finite
    assert noised.weight.tolist() == [0.0]


@pytest.mark.parametrize("order", [-8.0, 8.0])
def test_an_order_may_be_as_strong_as_eight(order):
    assert ProcessConfig(order=order).order == order
    with pytest.raises(UserError, match=r"process\.order must be"):
        ProcessConfig(order=1.01 * order)


@pytest.mark.parametrize("order", [0.0, -1.0])
def test_the_estimator_says_which_order_there_is(order):
    made = make_objective(config(ProcessConfig(order=order)), VOCAB)
    assert ("order -1 by rarity" in made.estimator) == (order != 0)
