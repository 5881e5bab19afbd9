"""Published weights in our trunk give what the published code computes: logits, bounds, anchors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.models.foreign.source import open_source
from adlm.models.widen import widen
from adlm.nn.blocks import BlockLayout
from adlm.nn.context import Context
from adlm.objectives.base import make_objective
from adlm.objectives.sedd import uniform_entropy
from adlm.objectives.subs import zero_masking
from adlm.types import Batch, Noise
from tests.models.foreign.golden import GOLDEN, expected, given, here, turn, words

pytestmark = here
EXACT = 1e-9  # what is stored in fp64
WAVES = 1e-6  # beyond sinusoids of the noise level, in fp32: their last bit is the processor's own


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def far(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


@pytest.mark.parametrize(
    ("exact", "ending", "limit"), [(False, "_f32", 1e-4), (True, "", WAVES)], ids=["fp32", "fp64"]
)
def test_mdlm_gives_the_published_logits(exact, ending, limit):
    model, out = given("mdlm", exact=exact).model, expected("mdlm")
    sigma = out["sigma"].to(model.head.weight.dtype)
    assert far(model.logits(out["z"]), out[f"logits{ending}"]) < (EXACT if exact else limit)
    assert far(model.logits(out["z"], Context(sigma=sigma)), out[f"logits_sigma{ending}"]) < limit
    assert out["logits"].std() > 0.5


def noise_of(t: Tensor, masked: Tensor, eps: float) -> Noise:
    """The randomness with which our process hides exactly these positions at these times."""
    return Noise((t - eps) / (1 - eps), torch.where(masked, 0.0, 1.0).double())


def bound_of(path: str, folder: str, special: tuple[int, int], raw: bool = False) -> Tensor:
    """(B,) our bound of the published rows with their masks and times."""
    found, out = given(path, raw), expected(folder)
    objective = make_objective(found.config, words(*special))
    batch = Batch(out["x"], torch.ones_like(out["masked"]))
    noise = noise_of(out["t"], out["masked"], found.config.process.eps)
    return objective.score(found.model, batch, noise).rows


def test_mdlm_gives_the_published_bound():
    assert far(bound_of("mdlm", "mdlm", (99, 98)), expected("mdlm")["nelbo"].sum(1)) < EXACT


def test_mdlm_that_sees_the_noise_level_gives_the_published_terms():
    model, out = given("mdlm").model, expected("mdlm")
    log_p = zero_masking(model.logits(out["z"], Context(sigma=out["sigma_t"])), 99)
    nats = -log_p.gather(-1, out["x"][..., None])[..., 0] / out["t"][:, None]
    assert far(nats * out["masked"], out["nelbo_time_conditioned"]) < WAVES


@pytest.mark.parametrize("file", ["adlm.ckpt", "legacy.ckpt"])
@pytest.mark.parametrize("raw", [False, True], ids=["averaged", "raw"])
def test_adlm_gives_the_published_predictions_and_anchors(file, raw):
    which = "raw" if raw else "ema"
    found = given(f"adlm/{file}", raw)
    out = expected("adlm", f"expected-{which}.safetensors")
    model, z, masked = found.model, out["z"], out["masked"]
    states = model(z)
    log_p = zero_masking(model.head(states.denoiser), 257)
    assert far(model.anchor_head(states.anchor), out[f"anchor_logits_{which}"]) < EXACT
    assert far(log_p[masked][:, :257], out[f"logp_{which}"][masked][:, :257]) < EXACT
    assert (
        far(bound_of(f"adlm/{file}", "adlm", (257, 256), raw), out[f"nelbo_{which}"].sum(1)) < EXACT
    )
    assert (found.config.model.anchor_blocks, found.config.model.blocks) == (2, 1)


def test_adlm_gives_the_published_anchors_and_anchor_loss():
    found, out = given("adlm/adlm.ckpt", raw=True), expected("adlm")
    objective = make_objective(found.config, words(257, 256))
    batch = Batch(out["x"], torch.ones_like(out["masked"]))
    noise = noise_of(out["t"], out["masked"], found.config.process.eps)
    assert torch.equal(objective.anchors(batch.x, batch.valid), out["anchor_positions"])
    rows = objective.score(found.model, batch, noise, anchor=True).anchor_rows
    wanted = out["anchor_terms_raw_step500000"].sum(1)
    assert far(objective.gamma(0.5) * rows, wanted) < EXACT * float(wanted.max() / 3e-3)
    early = objective.gamma(1500 / 1e6) * rows
    assert far(early + out["nelbo_raw"].sum(1), out["train_terms_raw_step1500"].sum(1)) < 1e-4


def test_our_own_anchors_leave_special_tokens_and_the_mask_out():
    found, out = given("adlm/adlm.ckpt", raw=True), expected("adlm")
    config = replace(found.config, anchor=replace(found.config.anchor, compat=False))
    own, theirs = (make_objective(c, words(257, 256)) for c in (config, found.config))
    batch = Batch(out["x"], torch.ones_like(out["masked"]))
    noise = noise_of(out["t"], out["masked"], config.process.eps)
    ours = own.anchors(batch.x, batch.valid)
    assert torch.equal(ours, out["anchor_positions"] & (batch.x != 256))
    a, b = (o.score(found.model, batch, noise, anchor=True) for o in (own, theirs))
    assert torch.equal(a.rows, b.rows)  # the bound is the same
    assert (a.anchor_rows < b.anchor_rows).all()


def test_adlm_in_fp32_is_within_rounding():
    found, out = given("adlm/adlm.ckpt", exact=False), expected("adlm", "expected-ema.safetensors")
    log_p = zero_masking(found.model.logits(out["z"]), 257)
    masked = out["masked"]
    assert far(log_p[masked][:, :257], out["logp_ema"][masked][:, :257]) < 1e-4


@pytest.mark.parametrize(("exact", "limit"), [(False, 1e-4), (True, WAVES)], ids=["fp32", "fp64"])
def test_sedd_gives_the_published_scores(exact, limit):
    model, out = given("sedd", exact=exact).model, expected("sedd")
    sigma = out["sigma"]
    logits = model.logits(out["z"], Context(sigma=sigma.to(model.head.weight.dtype))).double()
    score = logits - sigma.expm1().log()[:, None, None] - torch.tensor(99.0).double().log()
    assert far(score.scatter(-1, out["z"][..., None], 0.0), out["log_score"]) < limit


@pytest.mark.parametrize(("exact", "limit"), [(False, 1e-4), (True, WAVES)], ids=["fp32", "fp64"])
def test_sedd_with_the_uniform_graph_gives_the_published_scores(exact, limit):
    model, out = given("sedd-uniform", exact=exact).model, expected("sedd-uniform")
    sigma = out["sigma"].to(model.head.weight.dtype)
    score = model.logits(out["z"], Context(sigma=sigma))
    assert far(score.scatter(-1, out["z"][..., None], 0.0), out["log_score"]) < limit


def test_sedd_with_the_uniform_graph_costs_what_was_published_in_a_vocabulary_with_a_mask():
    found, out = given("sedd-uniform"), expected("sedd-uniform")
    wide = widen(found.model, found.config, 100).double()  # the mask is token 99
    turn(wide, open_source(str(GOLDEN / "sedd-uniform")))
    objective = make_objective(found.config, words(99, 98))
    sigma = objective.kernel.schedule.sigma(out["t"])
    assert far(sigma, out["sigma"]) < 1.001e-4  # the published one does not begin at 0
    logits = wide.logits(out["z"], Context(sigma=out["sigma"]))
    alpha = (-out["sigma"]).exp()[:, None].expand(out["z"].shape)
    each = (1 - alpha) / 99
    flat = [a.flatten() for a in (out["z"], out["x"], each / (alpha + each))]
    cost = uniform_entropy(logits.flatten(0, 1), *flat, mask=99).view(out["z"].shape)
    assert far(cost, out["score_entropy"]) < 1e-6 * out["score_entropy"].max()


@pytest.mark.parametrize(("exact", "limit"), [(False, 1e-4), (True, WAVES)], ids=["fp32", "fp64"])
def test_gidd_gives_the_published_logits(exact, limit):
    model, out = given("gidd", exact=exact).model, expected("gidd")
    t = out["t"].to(model.head.weight.dtype)  # the network sees the time itself
    assert far(model.logits(out["z"], Context(sigma=t)), out["network_logits"]) < limit


def one_half(found, x: Tensor, z: Tensor, size: int) -> Tensor:
    """(B, L, V) logits of every noisy block after its clean ones: what [z ; x] gives at once."""
    layout, out = BlockLayout(block=size), []
    for start in range(0, x.shape[1], size):
        seen = torch.cat((x[:, :start], z[:, start : start + size]), dim=1)
        h = found.model(seen, Context(layout)).denoiser
        out.append(found.model.head(h[:, start:]))
    return torch.cat(out, dim=1)


@pytest.mark.parametrize("size", [1, 4, 16])
def test_bd3lm_gives_the_published_logits_and_losses(size):
    found, out = given("bd3lm"), expected("bd3lm")
    x, z, masked = out["x"], out[f"z_block{size}"], out[f"masked_block{size}"]
    logits = one_half(found, x, z, size)
    paired = Context(BlockLayout(block=size, paired=True))
    whole = found.model.logits(torch.cat((z, x), dim=1), paired)[:, : x.shape[1]]
    assert far(whole, out[f"logits_block{size}"]) < EXACT
    assert far(logits, out[f"logits_block{size}"]) < EXACT
    if size == 4:
        assert far(logits, out["logits_cached_block4"]) < EXACT
    nats = F.cross_entropy(logits[..., :99].transpose(1, 2), x, reduction="none")  # (B, L)
    if size == 1:  # the published evaluation of single tokens: all hidden but the first, weight 1
        hidden = one_half(found, x, torch.where(torch.arange(16) > 0, 99, x), 1)
        nats = F.cross_entropy(hidden[..., :99].transpose(1, 2), x, reduction="none")
        assert far(nats[:, 1:], out["loss_block1"][:, 1:]) < EXACT
    else:
        t = out[f"t_block{size}"].repeat_interleave(size, dim=1)
        assert far(nats * masked / t, out[f"loss_block{size}"]) < EXACT


def test_times_and_dropout_are_the_published_ones():
    assert given("mdlm").config.process.conditioned is False
    assert given("sedd").config.process.conditioned is True
    assert given("mdlm").config.model.dropout == pytest.approx(0.1)
    assert given("mdlm").config.model.attention_dropout == 0.0
    assert replace(given("bd3lm").config, objective="mdlm").model == given("mdlm").config.model
