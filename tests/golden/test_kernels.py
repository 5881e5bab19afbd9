"""Numbers of the published codes of D3PM, SEDD, UDLM and GIDD, met by ours.

They lie beside the project; where a published code is at fault, the test says which fault it is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from adlm.config import Config, ModelConfig, ProcessConfig
from adlm.models.denoiser import States
from adlm.nn.context import Context
from adlm.objectives.base import make_objective
from adlm.process.kernel import Mask, Uniform
from adlm.process.schedule import Cosine, Geometric, LogLinear, Schedule
from adlm.process.score import masked_step, uniform_analytic
from adlm.types import Batch, Noise, View

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
ROOF = 1e-3  # the published log-linear schedule stops at alpha_1 = 1e-3


def stored(folder: str, file: str = "expected") -> dict[str, Tensor]:
    path = GOLDEN / folder / f"{file}.safetensors"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    return load_file(path)


def meets(ours: Tensor, theirs: Tensor, within: float = 1e-9) -> bool:
    return torch.allclose(ours, theirs, rtol=within, atol=within)


def wide_vocabulary(logits: Tensor) -> Tensor:
    """Where the published vocabulary has no mask, ours comes after it, forbidden."""
    return F.pad(logits, (0, 1), value=0.0)


def flat(*tensors: Tensor) -> list[Tensor]:
    """(B, L, ...) -> (B L, ...), and (B,) spread over L."""
    length = next(t.shape[1] for t in tensors if t.dim() > 1)
    return [t.repeat_interleave(length) if t.dim() == 1 else t.flatten(0, 1) for t in tensors]


class Known(nn.Module):
    """A network whose logits are known for some rows: (B, L) tokens with (B, L, V) each."""

    def __init__(self, *tables: tuple[Tensor, Tensor]):
        super().__init__()
        size = tables[0][1].shape[2]
        self.rows = {
            tuple(row): logits
            for z, known in tables
            for row, logits in zip(z.tolist(), known, strict=True)
        }
        self.head = nn.Linear(size, size, bias=False, dtype=torch.float64)
        self.head.weight = nn.Parameter(torch.eye(size, dtype=torch.float64))

    def forward(self, z: Tensor, context: Context) -> States:
        logits = torch.stack([self.rows[tuple(row)] for row in z.tolist()])
        return States(logits if context.wanted is None else logits[context.wanted])


def made(objective: str, size: int, theirs: Schedule | None = None, **process: Any) -> Any:
    """An objective over `size` tokens, the last of which is the mask, with their schedule."""
    vocab: Any = SimpleNamespace(mask=size - 1, size=size)
    given = ProcessConfig(**{"masking": "bernoulli", "conditioned": True} | process)
    found: Any = make_objective(Config(objective, model=ModelConfig(time=4), process=given), vocab)
    if theirs is not None:
        (found if objective == "d3pm" else found.kernel).schedule = theirs
    return found


def texts(known: dict[str, Tensor]) -> Batch:
    return Batch(known["x"], torch.ones_like(known["x"], dtype=torch.bool))


def shown(objective: Any, known: dict[str, Tensor]) -> View:
    """The objective's own view of their z at their times."""
    t = known["t"].double()
    return objective.shown(texts(known), known["z"], t, torch.ones_like(t))


def costs(objective: Any, view: View, logits: Tensor) -> Tensor:
    """(B, L) what the objective counts of each position."""
    network = Known((view.z, logits))
    _, nats = objective.loss(objective.states(network, view).denoiser, network.head, view)
    return torch.zeros_like(view.z, dtype=nats.dtype).masked_scatter(view.wanted, nats * view.scale)


def rows(objective: Any, view: View, batch: Batch, logits: Tensor) -> Tensor:
    """(B,) what it counts of each row."""
    network = Known((view.z, logits))
    return objective.scored(network, batch, view, objective.states(network, view)).rows


class Roofed(LogLinear):
    """alpha = 1 - (1 - eps) t."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - (1 - ROOF) * t

    def dalpha(self, t: Tensor) -> Tensor:
        return torch.full_like(t, ROOF - 1)


class RoofedCosine(Cosine):
    """The cosine's alpha at (1 - eps) t."""

    def alpha(self, t: Tensor) -> Tensor:
        return super().alpha((1 - ROOF) * t)

    def dalpha(self, t: Tensor) -> Tensor:
        return (1 - ROOF) * super().dalpha((1 - ROOF) * t)


class Raised(Geometric):
    """The published sigma_0 is 1e-4 (in fp32) where ours is 0; the derivative is the same."""

    def __init__(self) -> None:
        super().__init__(float(torch.tensor(1e-4)))

    def sigma(self, t: Tensor) -> Tensor:
        return super().sigma(t) + self.least


class Stopped(LogLinear):
    """D3PM's last step as published: t stops at 1 - 1e-4, and s is a step before."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - t + 1e-4


def at_masks(known: dict[str, Tensor]) -> Noise:
    """Noise that hides what they hid; the steps of t are rounded up."""
    return Noise(known["t"] - 0.5e-3, 1 - known["masked"].double())


def d3pm_terms(known: dict[str, Tensor], logits: Tensor, theirs: Schedule | None = None) -> Tensor:
    """(B, L) D3PM's steps."""
    objective = made("d3pm", 60, theirs, steps=1000)
    view = objective.view(texts(known), at_masks(known))
    assert torch.equal(view.z, known["z"])
    return costs(objective, view, logits)


def without_mask(logits: Tensor) -> Tensor:
    """The published way to forbid the mask."""
    return logits - 1e6 * F.one_hot(torch.tensor(59), 60)


def read_off(known: dict[str, Tensor], logits: Tensor) -> Tensor:
    """(B,) nats of the text that D3PM's objective reads off z_0."""
    found = made("d3pm", 60, steps=1000).aside(Known((known["x"], logits)), texts(known))
    assert found is not None
    return found[1]


def test_d3pm_meets_the_published_terms_and_their_limit_at_the_first_step():
    known = stored("d3pm")
    last = known["t"] == 1
    assert meets(d3pm_terms(known, known["logits"])[~last], known["diffusion"][~last])
    assert meets(d3pm_terms(known, known["logits"], Stopped())[last], known["diffusion"][last])
    # at t = 1/T the published code has nan, 0 times infinity, and never draws it
    assert known["t"].min() > 1.5e-3
    one = {**known, "t": torch.full_like(known["t"], 1e-3)}
    assert meets(d3pm_terms(one, known["logits"]), known["diffusion_at_first_step_limit"])
    assert meets(read_off(known, known["logits0"]), known["reconstruction"].sum(dim=1))
    network = Known((known["z"], known["logits"]), (known["x"], known["logits0"]))
    score = made("d3pm", 60, steps=1000).score(network, texts(known), at_masks(known))
    whole = (known["diffusion"] + known["reconstruction"]).sum(dim=1)
    assert meets(score.rows[~last], whole[~last])


def test_a_public_reimplementation_of_d3pm_is_wrong_by_far():
    """It has alpha_s = t - dt where 1 - (t - dt) is right."""
    known = stored("d3pm")
    t = known["t"].clamp(max=1 - 1e-4)
    x, logits, a_t, a_s = flat(known["x"], known["logits"], 1 - t, t - 1e-3)
    log_p = F.log_softmax(logits, dim=-1)
    m, own = log_p[:, 59], log_p.gather(1, x[:, None]).squeeze(1)
    now = F.softplus(m + (a_t / (1 - a_t)).log())
    share = 1e-3 / (1 - a_t)
    before = torch.log(a_s * m.exp() / (1 - a_t - 1e-3) + 1)
    wrong = 1000 * (share * (now - own) + (1 - share) * (now - before))
    some = known["masked"].flatten()
    right = known["diffusion"].flatten()[some]
    assert ((wrong[some] - right).abs() / right.abs()).median() > 0.1


def test_d3pm_with_the_mask_forbidden_is_the_published_discrete_bound():
    known = stored("d3pm")
    last = known["t"] == 1
    for schedule, some in ((None, ~last), (Stopped(), last)):
        ours = d3pm_terms(known, without_mask(known["logits"]), schedule)[some]
        assert meets(ours, known["diffusion_subs"][some])
        assert meets(ours, known["diffusion_subs_masking"][some])
    read = read_off(known, without_mask(known["logits0"]))
    assert meets(read, known["reconstruction_subs_masking"].sum(dim=1))


def test_sedd_meets_the_published_score_entropy_at_masks():
    known = stored("sedd")
    sigma, log_n = known["sigma"][:, None, None], torch.tensor(99.0).double().log()
    logits = known["log_score"] + torch.expm1(sigma).log() + log_n
    objective = made("sedd", 100, Roofed())
    view = shown(objective, known)
    assert meets(costs(objective, view, logits), known["weighted_entropy"])
    assert meets(rows(objective, view, texts(known), logits), known["loss_rows"])
    assert meets(-Roofed().alpha(known["t"].double()).log(), known["sigma"])


def test_sedd_meets_the_published_score_entropy_of_uniform_noise():
    known, schedule = stored("sedd-uniform"), Raised()
    logits = wide_vocabulary(known["log_score"])
    objective = made("sedd", 100, schedule, kernel="uniform", schedule="geometric")
    view = shown(objective, known)
    ours = costs(objective, view, logits)
    assert meets(ours, known["weighted_entropy"])
    assert meets(ours / known["dsigma"][:, None], known["score_entropy"])
    assert meets(rows(objective, view, texts(known), logits), known["loss_rows"])
    assert meets(schedule.sigma(known["t"]), known["sigma"])
    assert meets(schedule.dsigma(known["t"]), known["dsigma"])


def test_sedd_takes_the_published_analytic_and_last_steps_at_masks():
    known = stored("sedd")
    masked = (known["z"] == 99).flatten()
    later = known["t"] - known["analytic_dt"]
    for name, alpha_s in (("analytic", Roofed().alpha(later)), ("denoise", torch.ones(4).double())):
        theirs = known[f"{name}_probs"].flatten(0, 1)[masked]
        alpha_t = Roofed().alpha(known["t"])
        k = 1 / torch.expm1(known["sigma"])
        chance = (alpha_s - alpha_t) / (1 - alpha_t)
        f, row = flat(known["log_score"].exp() / k[:, None, None], torch.arange(4))
        for got, f_n, c in zip(theirs, f[masked], chance[row[masked]], strict=True):
            step = masked_step(f_n[None], float(c), mask=99)[0]
            whole = F.pad(got, (0, 1)) if name == "denoise" else got  # the mask's is left out there
            if name == "denoise":
                step = step.index_fill(0, torch.tensor(99), 0.0)
            whole = whole.clamp(min=0.0)
            assert meets(step / step.sum(), whole / whole.sum())


def test_sedd_takes_the_published_analytic_steps_of_uniform_noise():
    known = stored("sedd-uniform")
    sigma = known["sigma"]
    later = Raised().sigma(known["t"] - known["analytic_dt"])
    for name, sigma_s in (("analytic", later), ("denoise", torch.zeros(4).double())):
        for row in range(4):
            score = wide_vocabulary(known["log_score"][row].exp())
            keep = float(torch.exp(sigma_s[row] - sigma[row]))
            step = uniform_analytic(score, known["z"][row], keep, mask=99)[:, :99]
            theirs = known[f"{name}_probs"][row].clamp(min=0.0)
            assert meets(step, theirs / theirs.sum(dim=1, keepdim=True))


def test_udlm_meets_the_published_terms():
    known = stored("udlm")
    objective = made("udlm", 61, Roofed(), kernel="uniform")
    ours = costs(objective, shown(objective, known), wide_vocabulary(known["logp"]))
    assert meets(ours, known["nll"])
    at = objective.kernel.shares(known["t"])
    assert meets(at.alpha, known["alpha_t"])
    assert meets(at.dalpha, known["dalpha_t"])


def test_the_published_cosine_derivative_lacks_a_factor():
    """alpha is the cosine's at (1 - eps) t; the derivative lacks 1 - eps, and so does the term."""
    known = stored("udlm")
    objective = made("udlm", 61, RoofedCosine(), kernel="uniform")
    at = objective.kernel.shares(known["t"])
    assert meets(at.alpha, known["alpha_t_cosine"])
    assert meets(at.dalpha / (1 - ROOF), known["dalpha_t_cosine"])
    ours = costs(objective, shown(objective, known), wide_vocabulary(known["logp"]))
    assert meets(ours / (1 - ROOF), known["nll_cosine"])


def test_the_uniform_kernel_takes_udlms_step():
    known = stored("udlm")
    kernel = Uniform(Roofed(), mask=60, size=61)
    z, t = flat(known["z"], known["t"])
    p = F.pad(known["logp"].exp().flatten(0, 1), (0, 1))
    s = ((1 - known["alpha_s"]) / (1 - ROOF)).repeat_interleave(16)
    assert meets(kernel.posterior(p, z, t, s)[:, :60], known["posterior"].flatten(0, 1))
    clean = kernel.posterior(p, z, t, torch.zeros_like(s))[:, :60]
    assert meets(clean, known["posterior_to_clean"].flatten(0, 1))


SHARES = {"pu0": math.exp(-20), "pu0.1": 0.1, "pu0.2": 0.2}  # the published p_u of 0 is e^-20


def gidd(name: str, weight: str = "bound") -> Any:
    return made("gidd", 64, kernel=f"mixture:{SHARES[name]!r}", weight=weight)


@pytest.mark.parametrize("name", SHARES)
def test_gidd_meets_the_published_shares_and_step(name):
    known, tables = stored("gidd"), stored("gidd", "probabilities")
    kernel, t = gidd(name).kernel, known["schedule_t"]
    assert math.log(kernel.b) == pytest.approx(known[f"log_B_{name}"].item(), rel=1e-9)
    assert meets(kernel.shares(t).alpha, known[f"alpha_{name}"])
    noise = kernel.marginal(torch.zeros(7, 64, dtype=torch.float64), t)
    assert meets(noise, tables[f"beta_pi_{name}"])
    at = kernel.shares(known["t"])
    assert meets(at.dalpha / at.alpha, known[f"alpha_ratio_{name}"])
    x, z, logits = (known[key][:, :4] for key in ("x", "z", "logits"))
    marginal = kernel.marginal(F.one_hot(x, 64), known["t"][:, None])
    assert meets(marginal, tables[f"marginal_{name}"])
    p = logits.flatten(0, 1).index_fill(1, torch.tensor(63), -torch.inf).softmax(dim=1)
    back = kernel.posterior(p, z.flatten(), known["reverse_t"], known["reverse_s"])
    assert meets(back, tables[f"reverse_{name}"].flatten(0, 1))


@pytest.mark.parametrize("name", SHARES)
def test_gidd_meets_the_published_bound(name):
    known, objective = stored("gidd"), gidd(name)
    view, alpha = shown(objective, known), objective.kernel.shares(known["t"]).alpha[:, None]
    assert meets(view.weight / alpha, known[f"elbo_weights_{name}"])
    assert meets(costs(objective, view, known["logits"]), known[f"elbo_{name}"])
    batch = Batch(known["x"], known["attention_mask"].bool())
    view = objective.shown(batch, known["z"], known["t"], torch.ones(5))
    total = rows(objective, view, batch, known["logits"]).sum()
    assert meets(total / batch.valid.sum(), known[f"metric_elbo_{name}"])


def test_gidd_without_uniform_noise_is_nearly_the_published_one_at_masks():
    known, objective = stored("gidd"), made("gidd", 64, kernel="mixture:0")
    ours, masked = costs(objective, shown(objective, known), known["logits"]), known["z"] == 63
    assert meets(ours[masked], known["elbo_pu0"][masked], within=1e-6)
    assert (ours[~masked] == 0).all(), "no other token is noise"


@pytest.mark.parametrize("name", SHARES)
def test_gidds_clipped_weights_are_the_published_ones_but_for_what_is_clipped(name):
    """They cut w, and we what the cross-entropy counts, w alpha, as everywhere: it is no less."""
    known, objective = stored("gidd"), gidd(name, "clamp:2")
    view, alpha = shown(objective, known), objective.kernel.shares(known["t"]).alpha[:, None]
    theirs, small = known[f"clip_weights_{name}"], known[f"elbo_weights_{name}"] <= 2
    assert meets((view.weight / alpha)[small], theirs[small])
    assert (view.weight / alpha >= theirs * (1 - 1e-9)).all()
    assert view.weight.max() <= 2
    given = replace(view, weight=theirs * alpha)
    assert meets(costs(objective, given, known["logits"]), known[f"loss_clip_{name}"])


@pytest.mark.parametrize("name", SHARES)
def test_gidd_trains_with_the_published_weights_but_for_the_clean_tokens(name):
    known, objective = stored("gidd"), gidd(name, "dynamic")
    view, at = shown(objective, known), objective.kernel.shares(known["t"])
    alpha, t, clean = at.alpha[:, None], known["t"][:, None], known["z"] == known["x"]
    weight, theirs = view.weight / alpha, known[f"dynamic_weights_{name}"]
    assert meets(weight[~clean], theirs[~clean])
    trained = costs(objective, view, known["logits"])
    assert meets(trained[~clean], known[f"loss_dynamic_{name}"][~clean])
    # at clean tokens the published code takes sigmoid(-t) for what follows the log-SNR, e^(. / 2)
    published = (objective.kernel.b / 64 * torch.exp(torch.sigmoid(-t) / 2)).expand_as(theirs)
    assert torch.allclose(published[clean], theirs[clean], rtol=1e-9, atol=0)
    bound = shown(gidd(name), known).weight / alpha  # to first order in c / N, here a few percent
    right = (2 * t * (1 - t) * bound)[clean]
    assert torch.allclose(weight[clean], right, rtol=0.05, atol=0)
    assert not torch.allclose(theirs[clean], right, rtol=0.5, atol=0)
    given = replace(view, weight=torch.where(clean, published, weight) * alpha)
    found = costs(objective, given, known["logits"])
    assert meets(found, known[f"loss_dynamic_{name}"])
    # unlike the bound, the published mean has padding in its sum and in its number
    assert (known["attention_mask"] == 0).any()
    assert meets(found.sum() / found.numel(), known[f"loss_dynamic_mean_{name}"])


def test_a_masked_kernel_steps_as_remdm_without_remasking():
    known, loop = stored("remdm"), stored("remdm", "expected-loop")
    kernel = Mask(LogLinear(), mask=39, size=40)
    masked = known["masked"].flatten()
    p, z = known["p_x0"].flatten(0, 1)[masked], known["z"].flatten()[masked]
    step = kernel.posterior(p, z, *torch.tensor([0.7, 0.6], dtype=torch.float64))
    theirs = loop["q_mdlm"].flatten(0, 1)[masked]  # not normalised: it sums to P(masked at t)
    assert meets(step, theirs / theirs.sum(dim=1, keepdim=True))
