"""A network small enough to list everything: three real tokens and the mask, two positions.

What is listed here is written from definitions, apart from the package's formulas: forward rates,
ratios of marginals, Bayes' rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.process.kernel import Kernel, make_kernel
from adlm.process.schedule import make_schedule

V, MASK, L = 4, 1, 2
VOCAB: Any = SimpleNamespace(mask=MASK, size=V, bos=0, eos=0)
REAL = [v for v in range(V) if v != MASK]
STATES = torch.tensor(list(itertools.product(range(V), repeat=L)))  # (S, L)
TEXTS = torch.tensor(list(itertools.product(REAL, repeat=L)))
GEOMETRIC = "geometric:0.01:8"

TIMED = ProcessConfig(masking="bernoulli", conditioned=True)
PROCESSES = {
    "mdlm": ("mdlm", TIMED),
    "sedd": ("sedd", TIMED),
    "sedd-uniform": ("sedd", replace(TIMED, kernel="uniform", schedule=GEOMETRIC)),
    "udlm": ("udlm", replace(TIMED, kernel="uniform")),
    "gidd": ("gidd", replace(TIMED, kernel="mixture:0.3")),
    "gidd-0.9": ("gidd", replace(TIMED, kernel="mixture:0.9")),
    "gidd-0.99": ("gidd", replace(TIMED, kernel="mixture:0.99")),
    "d3pm": ("d3pm", replace(TIMED, steps=4)),
}
SHORT = {  # noise that ends before a text is gone: alpha_1 = 0.6
    f"{name}-short": (objective, replace(process, schedule="geometric:0.01:0.5"))
    for name, (objective, process) in PROCESSES.items()
    if process.kernel == "uniform"
}
PROCESSES |= SHORT
MILD = {"sedd-uniform": 0.2, "sedd-uniform-short": 0.2}  # scores of wild networks cost hundreds


def config(name: str) -> Config:
    objective, process = PROCESSES[name]
    model = ModelConfig(width=8, blocks=1, heads=2, time=4)
    return Config(objective, DataConfig(length=L), model, process)


def network(name: str, seed: int = 0, sharpness: float = 0.0) -> Denoiser:
    """Random weights everywhere, in fp64."""
    sharpness = sharpness or MILD.get(name, 0.6)
    torch.manual_seed(seed)
    made = build_model(config(name), V).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=sharpness)
    return made.eval()


@dataclass
class Listed:
    """A model's reverse process over all states."""

    name: str
    model: Denoiser

    def __post_init__(self) -> None:
        process = PROCESSES[self.name][1]
        self.kernel: Kernel = make_kernel(process.kernel, make_schedule(process.schedule), MASK, V)

    @torch.no_grad()
    def logits(self, t: float) -> Tensor:
        """(S, L, V) at every state."""
        alpha = self.kernel.schedule.alpha(torch.tensor(t, dtype=torch.float64))
        level = self.kernel.level(alpha)
        sigma = torch.full((len(STATES),), float(level))
        return self.model.logits(STATES, Context(sigma=sigma))

    def predicted(self, t: float, forbid: bool = True) -> Tensor:
        """(S, L, V) distributions over clean tokens."""
        logits = self.logits(t)
        if forbid:
            logits[..., MASK] = -torch.inf
        return logits.softmax(dim=-1)

    def marginal(self, p: Tensor, t: float) -> Tensor:
        """q_t(. | p) = alpha p + noise: (..., V)."""
        at = self.kernel.shares(torch.tensor(t, dtype=torch.float64))
        noise = at.each.repeat(V)
        noise[MASK] = at.hidden
        return at.alpha * p + noise

    def rate(self, t: float) -> Tensor:
        """(V,) rate at which a token becomes each other one in the forward process."""
        at = self.kernel.shares(torch.tensor(t, dtype=torch.float64))
        noise, change = at.each.repeat(V), at.deach.repeat(V)
        noise[MASK], change[MASK] = at.hidden, at.dhidden
        return change - at.dalpha / at.alpha * noise

    def ratios(self, t: float) -> Tensor:
        """(S, L, V) the model's q_t(y) / q_t(z) of every other token y."""
        at = self.kernel.shares(torch.tensor(t, dtype=torch.float64))
        if self.name.startswith("sedd"):
            found = self.logits(t).exp()
            if not self.kernel.uniform:
                found = found / (V - 1) * at.alpha / at.hidden
        else:
            q = self.marginal(self.predicted(t), t)
            found = q / q.gather(2, STATES[..., None])
        if at.hidden == 0:
            found[..., MASK] = 0.0  # the mask is no state then
        return found.scatter(2, STATES[..., None], 0.0)

    def cost(self, x: Tensor, t: float) -> float:
        """E_z of the bound's integrand: rates times the entropy between true and model ratios,

        sum_{y != z} rate(z) [ model - true log model + true (log true - 1) ].
        """
        q = self.marginal(F.one_hot(x, V).double(), t).expand(len(STATES), L, V)
        own = q.gather(2, STATES[..., None])  # (S, L, 1)
        chance = own.prod(dim=1).squeeze(1)  # (S,)
        true = (q / own.clamp(min=1e-300)).scatter(2, STATES[..., None], 0.0)
        model = self.ratios(t)
        entropy = model + torch.special.xlogy(true, true) - torch.special.xlogy(true, model) - true
        rate = self.rate(t)[STATES][..., None]
        each = torch.where(rate > 0, rate * entropy, 0.0).sum(dim=(1, 2))  # (S,)
        return float(torch.where(chance > 0, chance * each, 0.0).sum())

    def generator(self, t: float) -> Tensor:
        """(S, S) rates of the reverse process from each state to each other."""
        rate, ratios = self.rate(t)[STATES], self.ratios(t)
        move = torch.where(rate[..., None] > 0, rate[..., None] * ratios, 0.0)  # (S, L, V)
        made = torch.zeros(len(STATES), len(STATES), dtype=torch.float64)
        for place in range(L):
            base = V ** (L - 1 - place)
            for y in range(V):
                to = torch.arange(len(STATES)) + (y - STATES[:, place]) * base
                made[torch.arange(len(STATES)), to] += move[:, place, y]
        return made - torch.diag(made.sum(dim=1))

    def start(self) -> Tensor:
        """(S,) the distribution of all noise."""
        one = torch.zeros(V, dtype=torch.float64)
        one[REAL if "uniform" in PROCESSES[self.name][1].kernel else [MASK]] = 1.0
        return (one[STATES] / one.sum()).prod(dim=1)

    def prior(self, x: Tensor) -> float:
        """KL of the noised text at t = 1 from all noise."""
        q = self.marginal(F.one_hot(x, V).double(), 1.0).expand(len(STATES), L, V)
        chance, start = q.gather(2, STATES[..., None]).prod(dim=1).squeeze(1), self.start()
        able = chance > 0
        return float((chance * (chance / start).log())[able].sum())


def crowded(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t(v) in (0, 1), dense at both ends, and dt/dv.

    A mixture is half noise at t = 1e-4 where p_u is 0.99.
    """
    inner = np.sin(np.pi * v / 2) ** 2
    slope = np.pi**2 / 4 * np.sin(np.pi * inner) * np.sin(np.pi * v)
    return np.sin(np.pi * inner / 2) ** 2, slope


def nodes(count: int = 120) -> tuple[Tensor, Tensor]:
    """Times and weights of an integral over (0, 1): (count,) each."""
    place, weight = np.polynomial.legendre.leggauss(count)
    t, slope = crowded((place + 1) / 2)
    return torch.from_numpy(t), torch.from_numpy(weight / 2 * slope)


def integral(f: Callable[[float], float]) -> float:
    """Over (0, 1)."""
    return float(sum(w * f(float(t)) for t, w in zip(*nodes(), strict=True)))


def outcome(listed: Listed, steps: int = 300) -> Tensor:
    """(S,) the distribution of texts at t = 0 of the continuous reverse process."""
    p = listed.start()
    for t, slope in zip(*crowded((np.arange(steps)[::-1] + 0.5) / steps), strict=True):
        p = p @ torch.matrix_exp(listed.generator(float(t)) * float(slope / steps))
    return p


def number(x: Tensor) -> int:
    """The state that a row is."""
    return int((x == STATES).all(dim=1).nonzero())
