"""The ANELBO against enumeration, its limits, and what is reported of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from adlm.config import AnchorConfig, Config, ModelConfig, ProcessConfig
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.cost import training_flops
from adlm.objectives.base import make_objective
from adlm.objectives.subs import zero_masking
from adlm.process.anchors import Anchors
from adlm.process.schedule import make_schedule
from adlm.registry import lookup, names
from adlm.types import Batch
from tests.objectives.test_nelbo import MASK, VOCAB, V, subsets

MODEL = ModelConfig(width=8, blocks=1, heads=2, anchor_blocks=1)


WORDS = replace(VOCAB, bos=0, eos=MASK, pad=MASK)


@pytest.fixture(autouse=True)
def _sized(monkeypatch):
    monkeypatch.setattr(type(WORDS), "size", property(lambda self: V))


def network(seed: int, causal: bool = False) -> Anchored:
    torch.manual_seed(seed)
    made = Anchored(V, MODEL, causal, max_length=8).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return made


def config(objective: str = "adlm", gamma: float = 0.7, **process) -> Config:
    settings = {"masking": "bernoulli", "times": "uniform", **process}
    anchor = AnchorConfig(rule="count", tau=1, gamma=gamma, warmup=0.0)
    return Config(objective, model=MODEL, process=ProcessConfig(**settings), anchor=anchor)


def enumerated(net: Anchored, x: torch.Tensor, anchors: list[int], steps: int, sigma: float):
    """(NELBO, L_Anchor) of the T-step process with remasking, every z written out."""
    schedule = make_schedule("log-linear")
    nelbo = anchor_loss = 0.0
    for i in range(1, steps + 1):
        a_t, a_s = (schedule.alpha(torch.tensor(j / steps)).double().item() for j in (i, i - 1))
        s = min(sigma, 1.0, (1 - a_s) / a_t if a_t > 0 else 1.0)
        factor = (a_s - (1 - s) * a_t) / (1 - a_t)
        for hidden in subsets(len(x)):
            z = x.clone()
            z[list(hidden)] = MASK
            states = net(z[None])
            log_x = zero_masking(net.head(states.denoiser)[0], MASK)
            log_y = zero_masking(net.anchor_head(states.anchor)[0], MASK)
            chance = (1 - a_t) ** len(hidden) * a_t ** (len(x) - len(hidden))
            nelbo -= factor * chance * sum(log_x[p, x[p]].item() for p in hidden)
            anchor_loss -= (
                factor * chance * sum(log_y[p, x[p]].item() for p in hidden if p in anchors)
            )
    return nelbo, anchor_loss


def anchor_kl(net: Anchored, x: torch.Tensor, anchors: list[int], steps: int, sigma: float):
    """L_Anchor by its definition (9): KL(r(Y_s | Z_t, y) || r_phi(Y_s | Z_t)), term by term."""
    schedule = make_schedule("log-linear")
    total = 0.0
    for i in range(1, steps + 1):
        a_t, a_s = (schedule.alpha(torch.tensor(j / steps)).double().item() for j in (i, i - 1))
        s = min(sigma, 1.0, (1 - a_s) / a_t if a_t > 0 else 1.0)
        for hidden in [(), *subsets(len(x))]:
            z = x.clone()
            z[list(hidden)] = MASK
            y = zero_masking(net.anchor_head(net(z[None]).anchor)[0], MASK).exp()
            chance = (1 - a_t) ** len(hidden) * a_t ** (len(x) - len(hidden))
            for p in anchors:
                r, r_phi = torch.zeros(V, dtype=torch.double), torch.zeros(V, dtype=torch.double)
                if p in hidden:  # equation (5), second case
                    write, stay = (a_s - (1 - s) * a_t) / (1 - a_t), (1 - a_s - a_t * s) / (1 - a_t)
                    r[x[p]], r[MASK] = write, stay
                    r_phi += write * y[p]
                    r_phi[MASK] = stay
                else:  # first case: both know the visible token
                    r[x[p]], r[MASK] = 1 - s, s
                    r_phi = r.clone()
                some = r > 0
                total += chance * (r[some] * (r[some] / r_phi[some]).log()).sum().item()
    return total


def likelihood(net: Anchored, x: torch.Tensor, steps: int, sigma: float) -> float:
    """-log p(x) of the T-step sampler (6), following every path from all masks."""
    schedule = make_schedule("log-linear")
    chance = {(MASK,) * len(x): 1.0}
    for i in range(steps, 0, -1):
        a_t, a_s = (schedule.alpha(torch.tensor(j / steps)).double().item() for j in (i, i - 1))
        s = min(sigma, 1.0, (1 - a_s) / a_t if a_t > 0 else 1.0)
        stay = (1 - a_s - a_t * s) / (1 - a_t)
        following: dict[tuple[int, ...], float] = {}
        for z, p in chance.items():
            probs = zero_masking(net.logits(torch.tensor([z]))[0], MASK).exp()
            options = [
                [(v, 1 - s), (MASK, s)]
                if v != MASK
                else [(MASK, stay), *((w, (1 - stay) * probs[n, w].item()) for w in range(2))]
                for n, v in enumerate(z)
            ]
            for path in itertools.product(*options):
                key = tuple(v for v, _ in path)
                following[key] = following.get(key, 0.0) + p * math.prod(q for _, q in path)
        chance = following
    return -math.log(chance[tuple(x.tolist())])


def estimate(objective, net, x, rows=64, repeats=300):
    batch = Batch(x.expand(rows, -1), torch.ones(rows, len(x), dtype=torch.bool))
    generator = torch.Generator().manual_seed(4)
    scores = [
        objective.score(net, batch, objective.noise(rows, len(x), generator), anchor=True)
        for _ in range(repeats)
    ]
    plain = torch.stack([s.rows.mean() for s in scores])
    anchor = torch.stack([s.anchor_rows.mean() for s in scores])
    minimised = [s.bound + objective.gamma(1.0) * s.anchor for s in scores]
    total = torch.stack([m.detach() / rows for m in minimised])
    return plain, anchor, total


def assert_estimates(objective, net, x, nelbo, anchor_loss):
    """Means of the objective's draws are the exact values, within three standard errors."""
    exact = (nelbo, anchor_loss, nelbo + 0.7 * anchor_loss)
    for values, truth in zip(estimate(objective, net, x), exact, strict=True):
        assert abs(values.mean().item() - truth) < 3 * values.std().item() / len(values) ** 0.5


@pytest.mark.parametrize("masking", ["bernoulli", "exact-k"])
def test_monte_carlo_anelbo_meets_enumeration_in_continuous_time(masking):
    """int_0^1 1/t sum_z q(z | x) [...] dt with |z| masks has the weight B(k, L - k + 1)."""
    x, net = torch.tensor([1, 0, 0, 0]), network(1).train()
    nelbo = anchor_loss = 0.0
    for hidden in subsets(len(x)):
        z = x.clone()
        z[list(hidden)] = MASK
        states = net(z[None])
        log_x = zero_masking(net.head(states.denoiser)[0], MASK)
        log_y = zero_masking(net.anchor_head(states.anchor)[0], MASK)
        k = len(hidden)
        weight = math.gamma(k) * math.gamma(len(x) - k + 1) / math.gamma(len(x) + 1)
        nelbo -= weight * sum(log_x[p, x[p]].item() for p in hidden)
        anchor_loss -= weight * sum(log_y[p, x[p]].item() for p in hidden if p == 0)
    objective = make_objective(config(masking=masking), WORDS)
    assert_estimates(objective, net, x, nelbo, anchor_loss)


@pytest.mark.parametrize(("steps", "sigma"), [(4, 0.0), (4, 0.1), (6, 0.05)])
def test_monte_carlo_anelbo_meets_enumeration(steps, sigma):
    x, net = torch.tensor([1, 0, 0, 0]), network(1).train()
    objective = make_objective(config(steps=steps, remask=sigma), WORDS)
    anchors = Anchors(config().anchor, WORDS)(x[None], x[None] >= 0)[0].nonzero()[:, 0].tolist()
    assert anchors == [0]
    nelbo, anchor_loss = enumerated(net, x, anchors, steps, sigma)
    assert_estimates(objective, net, x, nelbo, anchor_loss)


@pytest.mark.parametrize("steps", [0, 4])
def test_gamma_and_sigma_of_zero_give_the_mdlm_bound_exactly(steps):
    x, net = torch.tensor([[1, 0, 0, 1]] * 5), network(2).train()
    batch = Batch(x, x >= 0)
    plain, anchored = (
        make_objective(config(name, gamma=0.0, steps=steps), WORDS) for name in ("mdlm", "adlm")
    )
    noise = plain.noise(5, 4, torch.Generator().manual_seed(0))
    a, b = plain.score(net, batch, noise), anchored.score(net, batch, noise)
    assert torch.equal(a.rows, b.rows)
    assert torch.equal(a.bound, b.bound)
    assert b.anchor is None


@pytest.mark.parametrize("seed", range(100))
def test_the_bound_of_theorem_4_1_holds(seed):
    """-log p + gamma L_Anchor <= ANELBO, on random small networks with and without remasking.

    L_Anchor is the ANELBO's anchor term, so the statement is -log p <= NELBO.
    """
    dice = torch.Generator().manual_seed(seed)
    length, steps = 2 + seed % 2, 2 + seed // 2 % 3
    sigma = (0.0, 0.1, 0.3)[seed // 6 % 3]
    x = torch.randint(0, 2, (length,), generator=dice)
    x[0], x[1] = 1, 0  # two tokens at least: in two or three places one of them stands alone
    net = network(seed)
    anchors = [p for p in range(length) if int((x == x[p]).sum()) == 1]
    assert anchors
    with torch.no_grad():
        nelbo, anchor_loss = enumerated(net, x, anchors, steps, sigma)
        exact = likelihood(net, x, steps, sigma)
        regulariser = anchor_kl(net, x, anchors, steps, sigma)
    assert math.isclose(regulariser, anchor_loss, rel_tol=1e-9, abs_tol=1e-12)
    assert exact <= nelbo + 1e-9


@pytest.mark.parametrize("objective", ["adlm", "a2r"])
def test_the_report_never_contains_the_anchor_term(objective):
    x = torch.tensor([[1, 0, 0, 1, 1, 0]] * 3)
    batch, net = Batch(x, x >= 0), network(3, causal=objective == "a2r")
    scores = []
    for gamma in (0.0, 5.0):
        made = make_objective(config(objective, gamma=gamma), WORDS)
        noise = made.noise(3, 6, torch.Generator().manual_seed(0))
        scores.append(made.score(net, batch, noise, anchor=True))
        evaluated = made.score(net, batch, noise)
        assert evaluated.anchor is None
        assert torch.equal(evaluated.rows, scores[-1].rows)
        assert torch.equal(evaluated.bound, scores[-1].bound)
    assert torch.equal(scores[0].rows, scores[1].rows)


def test_gamma_warms_up_and_positions_differ():
    made = make_objective(config(gamma=0.5), WORDS)
    slow = replace(config(), anchor=AnchorConfig(gamma=0.5, warmup=0.2))
    assert make_objective(slow, WORDS).gamma(0.1) == 0.25
    assert made.gamma(0.0) == 0.5
    x = torch.tensor([[1, 0, 0, 0]])
    noise = made.noise(1, 4, torch.Generator().manual_seed(0))
    batch = Batch(x, x >= 0)
    view = made.view(batch, noise)
    every = make_objective(replace(config(), anchor=AnchorConfig(tau=1, positions="all")), WORDS)
    assert torch.equal(every.supervised(batch, view), torch.tensor([[True, False, False, False]]))
    assert torch.equal(made.supervised(batch, view), every.supervised(batch, view) & view.wanted)


@pytest.mark.parametrize(
    ("anchor", "expected"),
    [
        ({}, [2.0, 2.0, 2.0, 2.0, 2.0]),
        ({"warmup": 0.5}, [0.0, 1.0, 2.0, 2.0, 2.0]),
        ({"fade": True}, [2.0, 1.5, 1.0, 0.5, 0.0]),
        ({"fade": True, "warmup": 0.5}, [0.0, 1.0, 2.0, 1.0, 0.0]),
        ({"fade": True, "warmup": 1.0}, [0.0, 0.5, 1.0, 1.5, 0.0]),
        ({"until": 0.5}, [2.0, 2.0, 0.0, 0.0, 0.0]),
        ({"until": 0.5, "fade": True}, [2.0, 1.0, 0.0, 0.0, 0.0]),
        ({"until": 0.5, "fade": True, "warmup": 0.25}, [0.0, 2.0, 0.0, 0.0, 0.0]),
        ({"until": 0.25, "warmup": 0.5}, [0.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_gamma_rises_falls_and_ends(anchor, expected):
    made = make_objective(
        replace(config(), anchor=AnchorConfig(**{"gamma": 2.0, "warmup": 0.0} | anchor)), WORDS
    )
    assert [made.gamma(n / 4) for n in range(5)] == pytest.approx(expected)


def test_an_ended_anchor_loss_costs_nothing():
    x = torch.tensor([[1, 0, 0, 1]])
    batch, net = Batch(x, x >= 0), network(0).train()
    made = make_objective(replace(config(), anchor=AnchorConfig(until=0.5, warmup=0.0)), WORDS)
    noise = made.noise(1, 4, torch.Generator().manual_seed(0))
    gammas = [made.gamma(progress) for progress in (0.4, 0.5)]
    before, after = (made.score(net, batch, noise, anchor=gamma > 0) for gamma in gammas)
    assert before.anchor is not None
    assert after.anchor is None
    assert torch.equal(before.rows, after.rows)
    whole, half = (
        training_flops(replace(config(), anchor=AnchorConfig(until=share)), 50)
        for share in (1.0, 0.5)
    )
    none = training_flops(replace(config(), anchor=AnchorConfig(gamma=0.0)), 50)
    assert half == pytest.approx((whole + none) / 2)
    assert none < whole


@pytest.mark.parametrize("masking", ["bernoulli", "exact-k"])
def test_a_thinned_anchor_loss_has_the_same_mean(masking):
    """Position by position: each is taken in one draw of `every`, whatever is masked."""
    x, net = torch.tensor([1, 0, 0, 0]), network(1).train()
    plain = config(masking=masking)
    values = [
        estimate(make_objective(replace(plain, anchor=anchor), WORDS), net, x)
        for tau in (1, 3)  # the first token alone, or all of them
        for every in (1, 3)
        for anchor in [replace(plain.anchor, tau=tau, every=every)]
    ]
    for whole, some in (values[:2], values[2:]):
        for a, b in zip(whole[1:], some[1:], strict=True):
            error = (a.var() / len(a) + b.var() / len(b)).sqrt()
            assert abs(a.mean() - b.mean()) < 3 * error


@pytest.mark.parametrize("objective", ["adlm", "a2r"])
def test_a_thinned_anchor_loss_takes_one_position_in_so_many(objective):
    made = config(objective)
    made = make_objective(replace(made, anchor=replace(made.anchor, every=3)), WORDS)
    noise = made.noise(40, 12, torch.Generator().manual_seed(0))
    taken = made.thinned(torch.ones(40, 12, dtype=torch.bool), noise)
    assert taken.view(40, 4, 3).sum(2).eq(1).all()  # of three neighbours one,
    assert taken[:, :3].any(0).all()  # which one is up to the row
    assert torch.equal(made.thinned(torch.ones(5, 12, dtype=torch.bool), noise[7:12]), taken[7:12])


def test_a2r_is_ar_on_a_deeper_model_plus_the_anchor_term():
    x = torch.tensor([[1, 0, 0, 1, 0, 0]])
    batch, net = Batch(x, x >= 0), network(5, causal=True).train()
    score = make_objective(config("a2r", gamma=0.3), WORDS).score(net, batch, None, anchor=True)
    plain = make_objective(config("ar"), WORDS).score(net, batch, None)
    assert torch.equal(score.rows, plain.rows)
    seen = torch.tensor([[WORDS.bos, 1, 0, 0, 1, 0]])
    log_y = zero_masking(net.anchor_head(net(seen).anchor)[0], MASK)
    assert score.anchor.item() == 0  # tau 1, and both tokens occur more than once
    once = make_objective(
        replace(config("a2r"), anchor=AnchorConfig(tau=2, gamma=0.3, warmup=0)), WORDS
    )
    expected = -(log_y[0, 1] + log_y[3, 1]).item()
    found = once.score(net, batch, None, anchor=True)
    assert math.isclose(found.anchor.item(), expected, rel_tol=1e-9)
    assert math.isclose(found.anchor_rows.item(), expected, rel_tol=1e-9)
    assert math.isclose(found.bound.item(), plain.bound.item(), rel_tol=1e-9)
    assert once.gamma(1.0) == 0.3


def test_an_anchored_objective_without_an_anchor_network_is_one_sentence():
    with pytest.raises(UserError, match="anchor_blocks must be at least 1"):
        make_objective(replace(config(), model=ModelConfig()), WORDS)


@pytest.mark.parametrize("name", names("objective"))
def test_only_models_from_left_to_right_have_an_exact_likelihood(name):
    kind = lookup("objective", name)
    assert kind.exact == kind.causal == (name in ("ar", "a2r"))


@pytest.mark.parametrize("name", names("objective"))
def test_anchoring_changes_nothing_of_what_a_base_is(name):
    base = getattr(lookup("objective", name), "base_class", None)
    for trait in ("causal", "exact", "reads", "in_blocks", "parameterization"):
        if base is not None:
            assert getattr(lookup("objective", name), trait) == getattr(base, trait), trait
