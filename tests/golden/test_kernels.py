"""Numbers of the published codes of D3PM, SEDD, UDLM and GIDD, met by ours.

They lie beside the project; where a published code is at fault, the test says which fault it is.
"""

from __future__ import annotations

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
from adlm.objectives.d3pm import step_divergence
from adlm.objectives.gidd import dynamic
from adlm.objectives.kernels import divergence
from adlm.objectives.sedd import ScoreEntropy, masked_entropy, uniform_entropy
from adlm.process.kernel import Mask, Mixture, Uniform
from adlm.process.schedule import Cosine, Geometric, LogLinear
from adlm.process.score import masked_step, uniform_analytic
from adlm.types import Batch

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


class Roofed(LogLinear):
    """alpha = 1 - (1 - eps) t."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - (1 - ROOF) * t

    def dalpha(self, t: Tensor) -> Tensor:
        return torch.full_like(t, ROOF - 1)


def d3pm_terms(known: dict[str, Tensor], logits: Tensor) -> Tensor:
    """T rho times the divergence at masks: (B, L). The published t stops at 1 - 1e-4."""
    t = known["t"].clamp(max=1 - 1e-4)
    alpha_t, alpha_s = 1 - t, (1 - (t - 1e-3)).clamp(max=1.0)
    rho = (alpha_s - alpha_t) / (1 - alpha_t)
    x, logits, a_t, a_s = flat(known["x"], logits, alpha_t, alpha_s)
    nats = step_divergence(logits, x, a_t, a_s, mask=59).reshape(known["x"].shape)
    return 1000 * rho[:, None] * nats * known["masked"]


def test_d3pm_meets_the_published_terms_and_their_limit_at_the_first_step():
    known = stored("d3pm")
    ours = d3pm_terms(known, known["logits"])
    first = known["t"] < 1.5e-3  # the published code has nan there: 0 times infinity
    assert first.any() or not known["diffusion"].isnan().any()
    assert meets(ours[~first], known["diffusion"][~first])
    one = {**known, "t": torch.full_like(known["t"], 1e-3)}
    assert meets(d3pm_terms(one, known["logits"]), known["diffusion_at_first_step_limit"])
    assert meets(read_off(known), known["reconstruction"].sum(dim=1))


def read_off(known: dict[str, Tensor]) -> Tensor:
    """(B,) nats of the text that D3PM's objective reads off z_0, of a network with their logits."""

    class Known(nn.Module):
        head = nn.Linear(60, 60, bias=False).double()

        def forward(self, z: Tensor, context: Context) -> States:
            assert torch.equal(z, known["x"])
            return States(known["logits0"][context.wanted])

    vocab: Any = SimpleNamespace(mask=59, size=60)
    with torch.no_grad():
        Known.head.weight.copy_(torch.eye(60))
        every = torch.ones_like(known["x"], dtype=torch.bool)
        process = ProcessConfig(masking="bernoulli", steps=1000)
        made = make_objective(Config("d3pm", process=process), vocab)
        found = made.aside(Known(), Batch(known["x"], every))
    assert found is not None
    return found[1]


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
    some = (known["masked"] & (known["t"] > 1.5e-3)[:, None]).flatten()
    right = known["diffusion"].flatten()[some]
    assert ((wrong[some] - right).abs() / right.abs()).median() > 0.1


def test_d3pm_with_the_mask_forbidden_is_the_published_discrete_bound():
    known = stored("d3pm")
    logits = known["logits"].clone()
    logits[..., 59] = -torch.inf
    ours = d3pm_terms(known, logits)
    some = known["t"] > 1.5e-3
    assert meets(ours[some], known["diffusion_subs"][some])
    assert meets(ours[some], known["diffusion_subs_masking"][some])


def test_sedd_meets_the_published_score_entropy_at_masks():
    known = stored("sedd")
    sigma, log_n = known["sigma"][:, None, None], torch.tensor(99.0).double().log()
    logits = known["log_score"] + torch.expm1(sigma).log() + log_n
    x, logits = flat(known["x"], logits)
    nats = masked_entropy(logits, x, mask=99).reshape(known["x"].shape)
    masked = known["z"] == 99
    vocab: Any = SimpleNamespace(mask=99, size=100)
    process = ProcessConfig(masking="bernoulli", conditioned=True)
    made = make_objective(Config("sedd", model=ModelConfig(time=4), process=process), vocab)
    assert isinstance(made, ScoreEntropy)
    made.kernel = Mask(Roofed(), mask=99, size=100)
    weight = made.weigh(known["z"], known["x"], known["t"].double()[:, None])
    ours = weight * nats * masked
    assert meets(ours, known["weighted_entropy"])
    assert meets(ours.sum(dim=1), known["loss_rows"])
    t = known["t"].double()
    assert meets(-Roofed().alpha(t).log(), known["sigma"])


def test_sedd_meets_the_published_score_entropy_of_uniform_noise():
    known = stored("sedd-uniform")
    logits = wide_vocabulary(known["log_score"])
    alpha = torch.exp(-known["sigma"])
    each = -torch.expm1(-known["sigma"]) / 99
    x, z, logits, ratio = flat(known["x"], known["z"], logits, each / (alpha + each))
    ours = uniform_entropy(logits, z, x, ratio, mask=99).reshape(known["x"].shape)
    assert meets(ours, known["score_entropy"])
    assert meets(known["dsigma"][:, None] * ours, known["weighted_entropy"])
    # the published sigma_0 is 1e-4 (in fp32) where ours is 0; the derivative is the same
    least = float(torch.tensor(1e-4))
    assert meets(Geometric(least).sigma(known["t"]) + least, known["sigma"])
    assert meets(Geometric(least).dsigma(known["t"]), known["dsigma"])


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
    sigma, least = known["sigma"], float(torch.tensor(1e-4))
    later = Geometric(least).sigma(known["t"] - known["analytic_dt"]) + least
    for name, sigma_s in (("analytic", later), ("denoise", torch.zeros(4).double())):
        for row in range(4):
            score = wide_vocabulary(known["log_score"][row].exp())
            keep = float(torch.exp(sigma_s[row] - sigma[row]))
            step = uniform_analytic(score, known["z"][row], keep, mask=99)[:, :99]
            theirs = known[f"{name}_probs"][row].clamp(min=0.0)
            assert meets(step, theirs / theirs.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("schedule", ["", "_cosine"])
def test_udlm_meets_the_published_terms(schedule):
    known = stored("udlm")
    alpha, dalpha = known[f"alpha_t{schedule}"], known[f"dalpha_t{schedule}"]
    each = (1 - alpha) / 60
    x, z, logits, a, e, da = flat(
        known["x"], known["z"], wide_vocabulary(known["logp"]), alpha, each, dalpha
    )
    nats = divergence(logits, z, x, a, e, mask=60, uniform=True)
    weight = -da / a / (60 * (e + a * (z == x)))
    assert meets((weight * nats).reshape(known["x"].shape), known[f"nll{schedule}"])


def test_the_published_cosine_derivative_lacks_a_factor():
    known = stored("udlm")
    t = known["t"]
    exact = (1 - ROOF) * Cosine().dalpha((1 - ROOF) * t)  # alpha is Cosine at (1 - eps) t
    assert meets(Cosine().alpha((1 - ROOF) * t), known["alpha_t_cosine"])
    assert meets(exact / (1 - ROOF), known["dalpha_t_cosine"])


def test_the_uniform_kernel_has_udlms_weight_and_step():
    known = stored("udlm")
    kernel = Uniform(Roofed(), mask=60, size=61)
    x, z, logits, t = flat(known["x"], known["z"], wide_vocabulary(known["logp"]), known["t"])
    at = kernel.shares(t)
    nats = divergence(logits, z, x, at.alpha, at.each, mask=60, uniform=True)
    ours = kernel.weight(z, x, t) * nats
    assert meets(ours.reshape(known["x"].shape), known["nll"])
    p = F.pad(known["logp"].exp().flatten(0, 1), (0, 1))
    s = ((1 - known["alpha_s"]) / (1 - ROOF)).repeat_interleave(16)
    assert meets(kernel.posterior(p, z, t, s)[:, :60], known["posterior"].flatten(0, 1))
    clean = kernel.posterior(p, z, t, torch.zeros_like(s))[:, :60]
    assert meets(clean, known["posterior_to_clean"].flatten(0, 1))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2])
def test_gidd_meets_the_published_schedule_weights_bound_and_step(share):
    known, tables = stored("gidd"), stored("gidd", "probabilities")
    name, kernel = f"pu{share:g}", Mixture(LogLinear(), mask=63, size=64, share=share)
    # the published p_u of 0 is e^-20, ours is 0
    within = 1e-9 if share else 1e-6
    schedule = kernel.shares(known["schedule_t"])
    assert meets(schedule.alpha, known[f"alpha_{name}"], within)
    noise = kernel.marginal(torch.zeros(7, 64, dtype=torch.float64), known["schedule_t"])
    assert meets(noise, tables[f"beta_pi_{name}"], within)
    x, z, logits, t = flat(known["x"], known["z"], known["logits"], known["t"])
    at, weight = kernel.shares(t), kernel.weight(z, x, t)
    nats = divergence(logits, z, x, at.alpha, at.each, 63, kernel.uniform)
    counted = (z == 63) if not share else torch.ones_like(z, dtype=torch.bool)
    bound, theirs = (weight * nats)[counted], known[f"elbo_{name}"].flatten()[counted]
    assert meets(bound, theirs, within)
    assert meets(weight[counted], known[f"elbo_weights_{name}"].flatten()[counted], within)
    clip = known[f"clip_weights_{name}"].flatten()[counted]
    assert meets(weight.clamp(max=2.0)[counted], clip, within)
    first = known["z"][:, :4].flatten()
    p = known["logits"][:, :4].flatten(0, 1).index_fill(1, torch.tensor(63), -torch.inf).softmax(1)
    back = kernel.posterior(p, first, known["reverse_t"], known["reverse_s"])
    some = (first == 63) if not share else torch.ones_like(first, dtype=torch.bool)
    assert meets(back[some], tables[f"reverse_{name}"].flatten(0, 1)[some], within)


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_gidd_trains_with_the_published_weights_but_for_the_clean_tokens(share):
    known = stored("gidd")
    kernel = Mixture(LogLinear(), mask=63, size=64, share=share)
    x, z, logits, t = flat(known["x"], known["z"], known["logits"], known["t"])
    ours, theirs = dynamic(kernel, z, x, t), known[f"dynamic_weights_pu{share:g}"].flatten()
    clean = z == x
    assert meets(ours[~clean], theirs[~clean])
    # at clean tokens the published code takes sigmoid(-t) for the log-SNR log((1 - t) / t)
    published = (kernel.b / 64 * torch.exp(torch.sigmoid(-t) / 2)).clamp(max=2.0)
    assert meets(published[clean], theirs[clean])
    right = (kernel.b / 64 * torch.sqrt((1 - t) / t)).clamp(max=2.0)
    assert meets(ours[clean], right[clean])
    at = kernel.shares(t)
    nats = divergence(logits, z, x, at.alpha, at.each, 63, uniform=True)
    trained = known[f"loss_dynamic_pu{share:g}"].flatten()
    assert meets((ours * nats)[~clean], trained[~clean])


def test_a_masked_kernel_steps_as_remdm_without_remasking():
    known, loop = stored("remdm"), stored("remdm", "expected-loop")
    kernel = Mask(LogLinear(), mask=39, size=40)
    masked = known["masked"].flatten()
    p, z = known["p_x0"].flatten(0, 1)[masked], known["z"].flatten()[masked]
    step = kernel.posterior(p, z, *torch.tensor([0.7, 0.6], dtype=torch.float64))
    theirs = loop["q_mdlm"].flatten(0, 1)[masked]  # not normalised: it sums to P(masked at t)
    assert meets(step, theirs / theirs.sum(dim=1, keepdim=True))
