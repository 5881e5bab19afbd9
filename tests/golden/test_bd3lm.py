"""Numbers that the published BD3-LM code computes for a small random network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from adlm.config import Config, DataConfig, ProcessConfig
from adlm.data.vocab import Vocab
from adlm.models.denoiser import Denoiser
from adlm.nn.blocks import BlockLayout
from adlm.nn.context import Context
from adlm.objectives.base import Objective, make_objective
from adlm.objectives.subs import zero_masking
from adlm.process.reverse import Transition
from adlm.process.schedule import LogLinear
from adlm.samplers.ancestral import Ancestral
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import Draw
from adlm.types import Batch, Noise, View
from tests.golden.test_kernels import Known
from tests.models.foreign.golden import given

HOME = Path(__file__).parents[3] / "shared" / "golden" / "bd3lm"
pytestmark = pytest.mark.skipif(not HOME.is_dir(), reason="no golden numbers")
MASK = 99
VOCAB = Vocab(tokenizer=None, mask=MASK, bos=0, eos=0, pad=0)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def expected() -> dict[str, Tensor]:
    return load_file(HOME / "expected.safetensors")


@pytest.fixture(scope="module")
def model() -> Denoiser:
    """The published weights in our trunk, in fp64."""
    return given("bd3lm").model


def setting(block: int, masking: str = "bernoulli") -> Config:
    process = ProcessConfig(masking=masking, block=block)
    return Config("bd3lm", DataConfig(length=16), process=process)


def rows(x: Tensor) -> Batch:
    """Their rows; the first token is there to be seen."""
    return Batch(x, torch.arange(16).expand_as(x) > 0, torch.zeros_like(x))


def shown(expected: dict[str, Tensor], objective: Objective, which: str) -> View:
    """Our view of their rows, times and masks."""
    x, hidden = expected["x"], expected[f"masked_block{which}"]
    noise = Noise(expected[f"t_block{which}"], 1.0 - hidden.double())
    return objective.view(rows(x), noise)


def nats(model: Denoiser, objective: Objective, view: View) -> Tensor:
    """(B, L) what the objective counts of each position."""
    _, found = objective.loss(objective.states(model, view).denoiser, model.head, view)
    spread = torch.zeros_like(view.weight, dtype=found.dtype)
    return spread.masked_scatter(view.wanted, found * view.scale)[:, :16]


def both_halves(model: Denoiser, z: Tensor, x: Tensor, block: int) -> Tensor:
    """Logits of the noisy half of [z ; x]."""
    layout = BlockLayout(block=block, paired=True)
    return model.logits(torch.cat((z, x), dim=1), Context(layout))[:, : z.shape[1]]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_logits_of_both_halves(model, expected, block):
    found = both_halves(model, expected[f"z_block{block}"], expected["x"], block)
    torch.testing.assert_close(found, expected[f"logits_block{block}"], atol=1e-9, rtol=0)


@pytest.mark.parametrize("block", [4, 16])
def test_loss_by_position(model, expected, block):
    """The published term CE / t at the hidden tokens; the first of a row is shown there."""
    objective, theirs = make_objective(setting(block), VOCAB), expected[f"loss_block{block}"]
    view = shown(expected, objective, str(block))
    assert torch.equal(view.z[:, :16], expected[f"z_block{block}"])
    torch.testing.assert_close(nats(model, objective, view), theirs, atol=1e-9, rtol=0)
    batch, states = rows(expected["x"]), objective.states(model, view)
    scored = objective.scored(model, batch, view, states).rows
    torch.testing.assert_close(scored, theirs.sum(dim=1), atol=1e-9, rtol=0)
    check_means(expected, scored.sum(), block)


def check_means(expected: dict[str, Tensor], total: Tensor, block: int) -> None:
    """The released code counts the first token in training's mean and not in evaluation's."""
    for mode, tokens in (("train", 3 * 16), ("eval", 3 * 15)):
        theirs = expected[f"loss_mean_{mode}_block{block}"]
        torch.testing.assert_close(total / tokens, theirs.double(), atol=1e-9, rtol=0)


def test_loss_of_single_tokens_with_times(model, expected):
    """Blocks of one with a time for each token: a bound of the chain rule, weight 1 / t."""
    objective = make_objective(setting(1), VOCAB)
    found = nats(model, objective, shown(expected, objective, "1_elbo"))
    torch.testing.assert_close(found, expected["loss_block1_elbo"], atol=1e-9, rtol=0)


def test_single_tokens_are_an_exact_likelihood(model, expected):
    """All hidden, weight 1, as the released code evaluates; but we score the first token too."""
    objective = make_objective(setting(1, masking="exact-k"), VOCAB)
    assert objective.exact
    x = expected["x"]
    view = objective.view(Batch(x, torch.ones_like(x, dtype=torch.bool)), None)
    found = nats(model, objective, view)
    assert (found[:, 0] > 0).all()
    assert (expected["loss_block1"][:, 0] == 0).all()
    wanted = expected["loss_block1"][:, 1:]
    torch.testing.assert_close(found[:, 1:], wanted, atol=1e-9, rtol=0)
    assert (expected["t_block1"] == 1).all()
    total = objective.score(model, rows(x), None).rows.sum()
    check_means(expected, total, 1)


def test_logits_with_remembered_blocks(model, expected):
    x, z, cache = expected["x"], expected["z_block4"], model.new_cache()
    layout = BlockLayout(block=4)
    for low in range(0, 16, 4):
        part = slice(low, low + 4)
        found = model.logits(z[:, part], Context(layout, cache=cache.select()))
        wanted = expected["logits_cached_block4"][:, part]
        torch.testing.assert_close(found, wanted, atol=1e-9, rtol=0)
        model(x[:, part], Context(layout, cache=cache))


def test_probabilities_of_a_step(model, expected):
    """p (1 - s/t) for each token at masks, s/t that one stays.

    Without first-hitting their sampler has a last step at t = 0, where s/t is no number; ours ends
    with the step to s = 0, which writes all.
    """
    # stored in fp32; the probabilities are of the numbers that were meant
    t, s = (round(expected[f"step_{name}"].item(), 6) for name in "ts")
    context = expected["step_context"]
    before, block = context[:, :4], context[:, 4:]
    logits = model.logits(torch.cat((before, block), dim=1), Context(BlockLayout(block=4)))[:, 4:]
    write = Transition.of(1 - t, 1 - s).unmask().item()
    p = write * zero_masking(logits, MASK).exp()
    p[..., MASK] = 1 - write
    wanted = expected["step_probs"]
    hidden = block == MASK
    torch.testing.assert_close(p[hidden], wanted[hidden], atol=1e-9, rtol=0)
    # they draw at visible positions too, as if the token's were all of p, and keep the token
    seen = torch.zeros_like(p).scatter(2, block[..., None], write)
    seen[..., MASK] = 1 - write
    torch.testing.assert_close(seen[~hidden], wanted[~hidden], atol=1e-9, rtol=0)
    network, none = Known((block, logits)), torch.zeros_like(hidden)
    canvas = Canvas(block, none, MASK, network, Draw(), random=None)  # type: ignore[arg-type]
    canvas.chance, canvas.token_chance = torch.zeros(2, *block.shape, dtype=torch.float64)
    Ancestral(LogLinear()).step(canvas, t, s)
    assert torch.equal(canvas.z[~hidden], block[~hidden])
    assert (canvas.z[hidden] != MASK).all()
    last = Transition.of(1 - t, 1.0)
    assert last.unmask().item() == 1.0
