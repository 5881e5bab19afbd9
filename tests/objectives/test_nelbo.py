"""The NELBO against full enumeration: 2 tokens and a mask, L <= 4, random networks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adlm.config import Config, ModelConfig, ProcessConfig
from adlm.data.vocab import Vocab
from adlm.models.denoiser import States
from adlm.nn.context import Context
from adlm.objectives.base import make_objective
from adlm.objectives.subs import zero_masking
from adlm.process.schedule import make_schedule
from adlm.types import Batch

MASK, V = 2, 3
VOCAB = Vocab(tokenizer=None, mask=MASK, bos=0, eos=0, pad=0)  # type: ignore[arg-type]


class Table(nn.Module):
    """A network given by its table: independent random logits for every z in V^L."""

    def __init__(self, length: int, seed: int):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.logits_of = 1.5 * torch.randn(V**length, length, V, generator=generator)
        self.base = V ** torch.arange(length)
        self.head = nn.Linear(V, V)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(V))
            self.head.bias.zero_()

    def forward(self, z: Tensor, context: Context = Context()) -> States:
        logits = self.logits_of[(z * self.base).sum(dim=1)]  # (B, L, V)
        return States(logits if context.wanted is None else logits[context.wanted])


def masked_cross_entropy(model: Table, x: Tensor, hidden: tuple[int, ...]) -> float:
    """sum over hidden l of -log p(x^l | z), z = x with exactly these positions masked."""
    z = x.clone()
    z[list(hidden)] = MASK
    log_p = zero_masking(model(z[None]).denoiser[0].double(), MASK)  # (L, V)
    return -sum(log_p[position, x[position]].item() for position in hidden)


def subsets(length: int) -> list[tuple[int, ...]]:
    return [s for k in range(1, length + 1) for s in itertools.combinations(range(length), k)]


def enumerated_nelbo(model: Table, x: Tensor, schedule_name: str, nodes: int = 400) -> float:
    """The integral over t of weight(t) * E_z[cross-entropy], every z written out."""
    schedule = make_schedule(schedule_name)
    points, weights = np.polynomial.legendre.leggauss(nodes)
    t = torch.tensor((points + 1) / 2, dtype=torch.float64)
    alpha, factor = schedule.alpha(t), schedule.weight(t)
    total = 0.0
    for hidden in subsets(len(x)):
        k = len(hidden)
        chance = (1 - alpha) ** k * alpha ** (len(x) - k)
        integral = (factor * chance * torch.tensor(weights / 2)).sum().item()
        total += integral * masked_cross_entropy(model, x, hidden)
    return total


def enumerated_discrete(model: Table, x: Tensor, schedule_name: str, steps: int) -> float:
    schedule = make_schedule(schedule_name)
    total = 0.0
    for i in range(1, steps + 1):
        a_t = schedule.alpha(torch.tensor(i / steps, dtype=torch.float64)).item()
        a_s = schedule.alpha(torch.tensor((i - 1) / steps, dtype=torch.float64)).item()
        for hidden in subsets(len(x)):
            k = len(hidden)
            chance = (1 - a_t) ** k * a_t ** (len(x) - k)
            total += (a_s - a_t) / (1 - a_t) * chance * masked_cross_entropy(model, x, hidden)
    return total


def exact_k_formula(model: Table, x: Tensor) -> float:
    """E_k [ n/k * E_{|S|=k} cross-entropy ], k uniform."""
    n = len(x)
    total = 0.0
    for k in range(1, n + 1):
        sets = list(itertools.combinations(range(n), k))
        mean = sum(masked_cross_entropy(model, x, s) for s in sets) / len(sets)
        total += mean / k
    return total


def estimates(model: Table, x: Tensor, process: ProcessConfig, rows: int, repeats: int) -> Tensor:
    """(repeats,) means of independent batches of `rows` draws."""
    objective = make_objective(Config(process=process, model=ModelConfig(width=2, heads=1)), VOCAB)
    batch = Batch(x.expand(rows, -1), torch.ones(rows, len(x), dtype=torch.bool))
    generator = torch.Generator().manual_seed(11)
    means = []
    for _ in range(repeats):
        noise = objective.noise(rows, len(x), generator)
        means.append(objective.score(model, batch, noise).rows.mean())
    return torch.stack(means)


def draws(model: Table, x: Tensor, process: ProcessConfig, rows: int) -> Tensor:
    """(rows,) estimates of one batch; independent where its times are."""
    objective = make_objective(Config(process=process, model=ModelConfig(width=2, heads=1)), VOCAB)
    batch = Batch(x.expand(rows, -1), torch.ones(rows, len(x), dtype=torch.bool))
    noise = objective.noise(rows, len(x), torch.Generator().manual_seed(11))
    return objective.score(model, batch, noise).rows


CASES = [(1, 0), (2, 1), (3, 2), (4, 3), (4, 4)]


@pytest.mark.parametrize(("length", "seed"), CASES)
@pytest.mark.parametrize("schedule", ["log-linear", "cosine", "polynomial:2", "polynomial:0.5"])
def test_exact_k_is_the_same_bound_as_continuous_time(length: int, seed: int, schedule: str):
    model = Table(length, seed)
    x = torch.randint(0, 2, (length,), generator=torch.Generator().manual_seed(seed))
    tolerance = 2e-3 if schedule == "polynomial:0.5" else 1e-9  # an integrand with a root at 0
    assert math.isclose(
        enumerated_nelbo(model, x, schedule), exact_k_formula(model, x), rel_tol=tolerance
    )


@pytest.mark.parametrize("times", ["uniform", "antithetic", "stratified"])
@pytest.mark.parametrize("masking", ["bernoulli", "exact-k"])
@pytest.mark.parametrize("schedule", ["log-linear", "cosine", "polynomial"])
@pytest.mark.parametrize(("length", "seed"), [(2, 1), (4, 3)])
def test_monte_carlo_meets_enumeration(length, seed, schedule, masking, times):
    model = Table(length, seed)
    x = torch.randint(0, 2, (length,), generator=torch.Generator().manual_seed(seed))
    process = ProcessConfig(schedule=schedule, masking=masking, times=times)
    means = estimates(model, x, process, rows=64, repeats=400)
    error = means.std().item() / math.sqrt(len(means))
    assert abs(means.mean().item() - enumerated_nelbo(model, x, schedule)) < 3 * error


@pytest.mark.parametrize("steps", [1, 3, 16])
@pytest.mark.parametrize("schedule", ["log-linear", "cosine"])
def test_discrete_time_meets_enumeration(steps: int, schedule: str):
    model, x = Table(3, 5), torch.tensor([1, 0, 1])
    process = ProcessConfig(schedule=schedule, masking="bernoulli", times="uniform", steps=steps)
    means = estimates(model, x, process, rows=64, repeats=400)
    error = means.std().item() / math.sqrt(len(means))
    assert (
        abs(means.mean().item() - enumerated_discrete(model, x, schedule, steps)) < 3 * error + 1e-6
    )


def test_discrete_time_tends_to_continuous_time():
    model, x = Table(3, 5), torch.tensor([1, 0, 1])
    limit = enumerated_nelbo(model, x, "log-linear")
    gaps = [abs(enumerated_discrete(model, x, "log-linear", 2**k) - limit) for k in (2, 5, 8)]
    assert gaps[0] > 4 * gaps[1] > 16 * gaps[2]


def test_exact_k_has_less_variance():
    """For each network, the variance of one draw; times independent in both."""
    ratios = []
    for seed in range(10):
        model, x = Table(4, seed), torch.tensor([0, 1, 1, 0])
        spread = {
            masking: draws(model, x, ProcessConfig(masking=masking, times="uniform"), 3000).var()
            for masking in ("bernoulli", "exact-k")
        }
        ratios.append(float(spread["exact-k"] / spread["bernoulli"]))
    assert max(ratios) < 0.5, ratios


def test_the_bound_is_above_the_likelihood():
    """-log p(x) of the T-step sampler, by following every path, is below its NELBO."""
    model, x, steps = Table(3, 7), torch.tensor([1, 0, 0]), 3
    schedule = make_schedule("log-linear")
    chance = {(MASK,) * 3: 1.0}
    for i in range(steps, 0, -1):
        a_t, a_s = (schedule.alpha(torch.tensor(j / steps)).item() for j in (i, i - 1))
        following: dict[tuple[int, ...], float] = {}
        for z, p in chance.items():
            probs = zero_masking(model(torch.tensor([z])).denoiser[0].double(), MASK).exp()
            stay = (1 - a_s) / (1 - a_t)
            options = [
                [(v, 1.0)]
                if v != MASK
                else [(MASK, stay)] + [(w, (1 - stay) * probs[n, w].item()) for w in range(2)]
                for n, v in enumerate(z)
            ]
            for path in itertools.product(*options):
                key = tuple(v for v, _ in path)
                following[key] = following.get(key, 0.0) + p * math.prod(q for _, q in path)
        chance = following
    assert math.isclose(sum(chance.values()), 1.0, rel_tol=1e-6)
    likelihood = -math.log(chance[tuple(x.tolist())])
    assert likelihood < enumerated_discrete(model, x, "log-linear", steps)


def test_a_conditioned_network_is_told_the_noise_level_of_its_step():
    process = ProcessConfig(masking="bernoulli", steps=4, conditioned=True)
    objective = make_objective(
        Config(process=process, model=ModelConfig(width=2, heads=1, time=4)), VOCAB
    )
    x = torch.zeros(64, 3, dtype=torch.long)
    noise = objective.noise(64, 3, torch.Generator().manual_seed(0))
    view = objective.view(Batch(x, x == 0), noise)
    levels = torch.exp(-view.context.sigma)
    grid = torch.tensor([0.75, 0.5, 0.25, 1e-4])
    assert (levels[:, None] - grid).abs().min(dim=1).values.max() < 1e-6


def test_eps_moves_continuous_times_only():
    for steps in (0, 1000):
        process = ProcessConfig(masking="bernoulli", times="stratified", eps=0.1, steps=steps)
        objective = make_objective(
            Config(process=process, model=ModelConfig(width=2, heads=1)), VOCAB
        )
        x = torch.zeros(4000, 2, dtype=torch.long)
        noise = objective.noise(4000, 2, torch.Generator().manual_seed(0))
        _, t = objective.corrupt(Batch(x, x == 0), noise)
        assert (t.min() >= 0.1) == (steps == 0)
