"""Block diffusion against the chain rule, MDLM, full enumeration and its own reverse process."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, models
from torch import Tensor

from adlm.config import AnchorConfig, Config, DataConfig, ModelConfig, ProcessConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.errors import UserError
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.nn.blocks import BlockLayout
from adlm.nn.context import Context
from adlm.objectives.base import Objective, make_objective
from adlm.objectives.interval import candidates
from adlm.objectives.likelihood import evaluator, row_noise
from adlm.objectives.subs import zero_masking
from adlm.types import Batch, Noise

MASK, V = 3, 4
VOCAB = Vocab(tokenizer=None, mask=MASK, bos=0, eos=0, pad=0)  # type: ignore[arg-type]
SMALL = ModelConfig(width=8, blocks=2, heads=2, conv=3)
DIT = ModelConfig(width=8, blocks=2, heads=2, time=4)


def setting(length: int, block: int, model: ModelConfig = SMALL, **process) -> Config:
    made = ProcessConfig(block=block, **process)
    return Config("bd3lm", DataConfig(length=length), model, made)


def network(config: Config, seed: int = 0) -> Denoiser:
    torch.manual_seed(seed)
    made = build_model(config, V).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.eval()


def rows(count: int, length: int, seed: int = 1) -> Batch:
    x = torch.randint(0, MASK, (count, length), generator=torch.Generator().manual_seed(seed))
    return Batch(x, torch.ones_like(x, dtype=torch.bool))


def log_p(model: Denoiser, z: tuple[int, ...], block: int) -> Tensor:
    """(L, V) of a row whose last block may have masks."""
    layout = BlockLayout(block=block)
    return zero_masking(model.logits(torch.tensor([z]), Context(layout))[0], MASK)


def gradients(model: Denoiser, bound: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(bound, list(model.parameters()), allow_unused=True)
    return [
        torch.zeros_like(p) if g is None else g
        for p, g in zip(model.parameters(), found, strict=True)
    ]


@pytest.mark.parametrize("shape", [SMALL, DIT], ids=["conv", "dit"])
def test_blocks_of_one_token_are_the_chain_rule(shape):
    """Recomputed position by position, in outputs and gradients."""
    config = setting(6, 1, shape)
    model, batch, objective = network(config), rows(2, 6), evaluator(config, VOCAB)
    assert objective.exact
    score = objective.score(model, batch, None)
    plain = torch.zeros(2, dtype=torch.float64)
    for position in range(6):
        ends = torch.full((2, 1), MASK)
        seen = torch.cat((batch.x[:, :position], ends), dim=1)
        logits = model.logits(seen, Context(BlockLayout(block=1)))[:, -1]
        plain -= zero_masking(logits, MASK).gather(1, batch.x[:, position : position + 1])[:, 0]
    torch.testing.assert_close(score.rows, plain.detach(), atol=1e-9, rtol=0)
    for ours, theirs in zip(
        gradients(model, score.bound), gradients(model, plain.sum()), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
@pytest.mark.parametrize("shape", [SMALL, DIT], ids=["conv", "dit"])
def test_one_block_as_long_as_the_row_is_mdlm(shape, masking):
    config = setting(6, 6, shape, masking=masking)
    model, batch = network(config), rows(3, 6)
    ours, theirs = (make_objective(c, VOCAB) for c in (config, replace(config, objective="mdlm")))
    noise = theirs.noise(3, 6, torch.Generator().manual_seed(2))
    noise = Noise(noise.t.double(), noise.u)
    one, two = (o.score(model, batch, noise) for o in (ours, theirs))
    torch.testing.assert_close(one.rows, two.rows, atol=1e-9, rtol=0)
    for a, b in zip(gradients(model, one.bound), gradients(model, two.bound), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_the_weights_are_those_of_an_mdlm():
    """So block diffusion can start from one: the same tensors, nothing new."""
    config = setting(8, 4)
    mdlm = build_model(replace(config, objective="mdlm"), V)
    network(config).load_state_dict(mdlm.state_dict(), strict=True)


def enumerated(model: Denoiser, x: tuple[int, ...], block: int) -> float:
    """sum_b sum over hidden sets S of b of (n - |S|)! (|S| - 1)! / n! * cross-entropy of S.

    The factor is the integral of 1/t * t^k (1 - t)^(n - k) over t, k = |S|, n = L'.
    """
    total = 0.0
    for low in range(0, len(x), block):
        for k in range(1, block + 1):
            factor = math.factorial(block - k) * math.factorial(k - 1) / math.factorial(block)
            for hidden in itertools.combinations(range(low, low + block), k):
                z = tuple(MASK if i in hidden else v for i, v in enumerate(x[: low + block]))
                known = log_p(model, z, block)
                total -= factor * sum(known[i, x[i]].item() for i in hidden)
    return total


def likelihoods(model: Denoiser, length: int, block: int) -> dict[tuple[int, ...], float]:
    """p(x) of the reverse process: blocks left to right, inside one any order alike."""
    chance = {(): 1.0}
    for _ in range(length // block):
        following: dict[tuple[int, ...], float] = {}
        for before, p in chance.items():
            for order in itertools.permutations(range(block)):
                for new in itertools.product(range(MASK), repeat=block):
                    z, q = [MASK] * block, p / math.factorial(block)
                    for place in order:
                        known = written(model, before, tuple(z), block)
                        q *= math.exp(known[len(before) + place][new[place]])
                        z[place] = new[place]
                    key = (*before, *new)
                    following[key] = following.get(key, 0.0) + q
        chance = following
    return chance


_known: dict[tuple, list[list[float]]] = {}


def written(model: Denoiser, before: tuple, z: tuple, block: int) -> list[list[float]]:
    key = (id(model), *before, *z, block)
    if key not in _known:
        with torch.no_grad():
            _known[key] = log_p(model, (*before, *z), block).tolist()
    return _known[key]


@pytest.mark.parametrize("block", [1, 2, 4])
def test_the_bound_is_at_least_the_nll_of_the_reverse_process(block):
    model = network(setting(4, block), seed=block)
    exact = likelihoods(model, 4, block)
    assert math.isclose(sum(exact.values()), 1.0, abs_tol=1e-9)
    for x in list(exact)[::7]:
        nelbo = enumerated(model, x, block)
        if block == 1:
            assert math.isclose(nelbo, -math.log(exact[x]), abs_tol=1e-9)
        else:
            assert nelbo > -math.log(exact[x])


@pytest.mark.parametrize("masking", ["exact-k", "bernoulli"])
@pytest.mark.parametrize("block", [2, 4])
def test_monte_carlo_meets_full_enumeration(block, masking):
    config = setting(4, block, masking=masking)
    model, objective = network(config), make_objective(config, VOCAB)
    x = (0, 2, 1, 1)
    batch = Batch(torch.tensor([x]).expand(20_000, -1), torch.ones(20_000, 4, dtype=torch.bool))
    noise = objective.noise(20_000, 4, torch.Generator().manual_seed(3))
    found = objective.score(model, batch, noise).rows
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - enumerated(model, x, block)) < 3 * error


def test_all_that_scoring_draws_averages_to_the_bound():
    config = setting(4, 2)
    model, objective = network(config), evaluator(config, VOCAB)
    x = (2, 0, 1, 0)
    draws = [row_noise(5, 7, 4, 4, objective.clocks(4)) for _ in range(1)]
    assert draws[0].t.shape == (4, 2)
    noises = [row_noise(5, row, 4, 4, objective.clocks(4)) for row in range(2000)]
    noise = Noise(torch.cat([n.t for n in noises]), torch.cat([n.u for n in noises]))
    count = len(noise.t)
    batch = Batch(torch.tensor([x]).expand(count, -1), torch.ones(count, 4, dtype=torch.bool))
    found = objective.score(model, batch, noise).rows.view(-1, 4).mean(dim=1)
    assert abs(found.mean() - enumerated(model, x, 2)) < 3 * found.std() / math.sqrt(len(found))


def test_padding_and_documents_beside_change_no_score():
    config = setting(8, 4)
    model, objective = network(config), make_objective(config, VOCAB)
    batch, noise = rows(2, 8), objective.noise(2, 8, torch.Generator().manual_seed(4))
    valid = torch.arange(8) < 6
    short = Batch(batch.x, valid.expand(2, -1))
    other = Batch(torch.where(valid, batch.x, 1 - batch.x.clamp(max=1)), short.valid)
    torch.testing.assert_close(
        objective.score(model, short, noise).rows, objective.score(model, other, noise).rows
    )
    segment = torch.tensor([[0] * 3 + [1] * 5] * 2)
    first = Batch(batch.x, (segment == 0), segment)
    changed = Batch(torch.where(segment == 0, batch.x, 2 - batch.x), segment == 0, segment)
    torch.testing.assert_close(
        objective.score(model, first, noise).rows, objective.score(model, changed, noise).rows
    )


def clipped(block: int, clip: tuple[float, float], length: int = 0) -> Objective:
    config = setting(length or block, block, masking="bernoulli", clip=clip)
    return make_objective(config, VOCAB)


def test_masks_are_drawn_again_until_their_share_lies_in_the_interval():
    """Given the time, the number of hidden tokens is binomial, cut to the interval."""
    objective = clipped(4, (0.45, 0.95))
    noise = objective.noise(40_000, 4, torch.Generator().manual_seed(5))
    assert noise.t.min() >= 0.45
    assert noise.t.max() <= 0.95
    hidden = (noise.u < noise.t).sum(dim=1)
    assert set(hidden.tolist()) == {2, 3}
    t = noise.t[:, 0].double()
    two, three = 6 * t**2 * (1 - t) ** 2, 4 * t**3 * (1 - t)
    wanted = (two / (two + three)).mean().item()
    assert abs(Counter(hidden.tolist())[2] / 40_000 - wanted) < 4 * math.sqrt(0.25 / 40_000)


@pytest.mark.parametrize("clip", [(0.5, 0.6), (0.4, 0.5)])
def test_an_interval_may_begin_or_end_at_a_whole_number_of_tokens(clip):
    noise = clipped(4, clip).noise(50, 4, torch.Generator().manual_seed(5))
    assert (noise.u < noise.t).sum(dim=1).eq(2).all()


def test_a_clipped_interval_is_no_bound_and_is_never_what_is_reported():
    config = setting(8, 4, masking="bernoulli", clip=(0.45, 0.95))
    assert not make_objective(config, VOCAB).bound
    reported = evaluator(config, VOCAB)
    assert reported.bound
    assert reported.clip == (0.0, 1.0)


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        ({"block": 3}, "process.block must divide a row of 8 tokens, found 3"),
        ({"block": 0}, "process.block must be at least 1, found 0"),
        ({"block": 2**24 + 1}, "process.block must be at most 16,777,216"),
        ({"block": 4, "clip": (0.6, 0.3)}, "process.clip must be two numbers"),
        ({"block": 4, "clip": (0.3, 0.4)}, "process.clip is for bernoulli masking"),
        (
            {"block": 4, "masking": "bernoulli", "clip": (0.3, 0.4)},
            "none lies between 1.2 and 1.6",
        ),
    ],
)
def test_bad_settings_are_one_sentence(process, sentence):
    with pytest.raises(UserError, match=sentence):
        make_objective(setting(8, **process), VOCAB)


def test_candidates_lie_in_the_unit_interval():
    assert all(0 <= low < high <= 1 for low, high in candidates())
    assert (0.45, 0.95) in candidates()


def test_anchoring_wraps_block_diffusion():
    """The bound is the base's; the anchor term is the anchor network's, at the noisy half alone."""
    shape = replace(SMALL, anchor_blocks=1)
    plain = setting(8, 4, shape)
    config = replace(
        plain, objective="adlm-bd3lm", anchor=AnchorConfig(rule="all", positions="all")
    )
    model, batch = network(config), rows(2, 8)
    words = make_vocab(Tokenizer(models.WordLevel({"a": 0, "b": 1})))
    assert (words.eos, words.mask) == (2, MASK)
    objective = make_objective(config, words)
    noise = objective.noise(2, 8, torch.Generator().manual_seed(6))
    score = objective.score(model, batch, noise, anchor=True)
    base = make_objective(plain, words)
    torch.testing.assert_close(score.rows, base.score(model, batch, noise).rows)
    view = base.view(batch, noise)
    states = model(view.z, view.context).anchor[:, :8]
    known = zero_masking(model.anchor_head(states), MASK).gather(2, batch.x[..., None])[..., 0]
    chosen = view.weight[:, :8] * (batch.x != words.eos)  # which is never an anchor
    torch.testing.assert_close(score.anchor, -(known * chosen).sum())
