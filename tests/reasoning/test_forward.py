"""The multi-pass forward and decoding against their plain references."""

import pytest
import torch
import torch.nn.functional as F

from adlm.config import AnchorConfig, Config, ModelConfig
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.base import make_objective
from adlm.reasoning.decode import greedy
from adlm.reasoning.forward import losses, naive, states
from adlm.reasoning.item import Item
from adlm.reasoning.methods.base import Stage, make_method
from adlm.reasoning.sequence import IGNORE, collate
from adlm.reasoning.vocab import pieces, with_special, word_vocab

ITEMS = [
    Item("3 and 4 twice?", ("<<3+4=7>>", "<<7*2=14>>"), "14", ("3", "4", "7")),
    Item("2?", ("<<2+2=4>>",), "4", ("2", "4")),
    Item("7 and then 7 and 2 and 2 twice?", ("<<7+7=14>>", "<<2+2=4>>"), "14", ("7",)),
]
VOCAB = with_special(word_vocab(t for i in ITEMS for t in (i.question, i.trace, i.answer)))


def network(kind: str) -> Denoiser:
    torch.manual_seed(0)
    plain = ModelConfig(width=16, blocks=2, heads=2, conv=3, qk_norm=True)
    if kind == "learned positions":
        plain = ModelConfig(width=16, blocks=2, heads=2, bias=True, positions="learned")
    if kind == "a2r":
        both = ModelConfig(16, 1, 2, conv=3, anchor_blocks=1, bridge="embedding", residual=True)
        model = Anchored(VOCAB.size, both, causal=True, max_length=64)
    else:
        model = Denoiser(VOCAB.size, plain, causal=True, max_length=64)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=1.0 if name.startswith(("embed", "head")) else 0.3)
    return model.double()


def rows_of(method: str, stage: Stage, items=ITEMS, **options):
    made = make_method(method, options)
    return [made.row(pieces(i, VOCAB), stage, VOCAB) for i in items]


RARE = Config(objective="a2r", model=ModelConfig(anchor_blocks=1), anchor=AnchorConfig(tau=1))
A2R = make_objective(RARE, VOCAB)  # its anchors: tokens that occur once in their row
KINDS = ["rotary", "learned positions", "a2r"]
THOUGHTS = Stage(1, slots=3, removed=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["coconut", "acot"])
def test_multi_pass_is_the_naive_recomputation(kind, method):
    model = network(kind)
    rows = collate(rows_of(method, THOUGHTS, feedback=True), VOCAB.pad)
    real = (rows.segment >= 0)[..., None]
    results = []
    for forward in (lambda m, r: states(m, r).denoiser, naive):
        model.zero_grad()
        h = forward(model, rows) * real
        h.square().sum().backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        results.append((h, gradients))
    (fast, a), (slow, b) = results
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("method", "stage", "options"),
    [("cot", Stage(1), {}), ("coconut", THOUGHTS, {}), ("acot", THOUGHTS, {"feedback": False})],
)
def test_a_batch_costs_what_its_rows_cost_alone(kind, method, stage, options):
    model = network(kind)
    rows = rows_of(method, stage, **options)
    a2r = A2R if kind == "a2r" else None
    together = losses(model, collate(rows, VOCAB.pad), a2r)
    alone = [losses(model, collate([r], VOCAB.pad), a2r) for r in rows]
    for term in (0, 1):  # the labels' and the anchors'
        torch.testing.assert_close(together[term], sum(a[term] for a in alone))
    assert bool(together[1] > 0) == (kind == "a2r")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "stage"), [("cot", Stage(1)), ("coconut", THOUGHTS)])
def test_the_loss_is_that_of_every_label_by_the_state_before_it(kind, method, stage):
    model = network(kind)
    rows = collate(rows_of(method, stage), VOCAB.pad)
    results = []
    for fast in (True, False):
        model.zero_grad()
        if fast:
            nats = losses(model, rows)[0]
        else:
            said = model.head(naive(model, rows)[:, :-1]).transpose(1, 2)  # (B, V, L - 1)
            nats = F.cross_entropy(said, rows.labels[:, 1:], ignore_index=IGNORE, reduction="sum")
        nats.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        results.append((nats, gradients))
    (a, left), (b, right) = results
    torch.testing.assert_close(a, b, check_dtype=False)
    for name in right:
        torch.testing.assert_close(left[name], right[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("feedback", [False, True])
def test_the_anchor_loss_of_a2r_is_that_of_rare_labelled_tokens(feedback):
    model = network("a2r")
    rows = rows_of("acot", THOUGHTS, feedback=feedback)
    special = {VOCAB.mask, VOCAB.bos, VOCAB.eos, VOCAB.pad}
    expected = torch.zeros(())
    for row in rows:
        tokens = [i if y == IGNORE else y for i, y in zip(row.ids, row.labels, strict=True)]
        h = states(model, collate([row], VOCAB.pad)).anchor[0]  # (L, D)
        said = model.anchor_head(h).log_softmax(dim=-1)
        for place, label in enumerate(row.labels):
            if label != IGNORE and label not in special and tokens.count(label) == 1:
                expected = expected - said[place - 1, label]
    _, found = losses(model, collate(rows, VOCAB.pad), A2R)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert model.anchor_head.weight.grad.abs().max() > 0
    denoiser = [p.grad for p in (*model.trunk.parameters(), *model.head.parameters())]
    if not feedback:  # a thought is the denoiser's
        assert all(g is None or not g.any() for g in denoiser)


def test_thoughts_are_not_tokens():
    model = network("rotary")
    fed = collate(rows_of("coconut", THOUGHTS), VOCAB.pad)
    plain = collate(rows_of("coconut", THOUGHTS, feedback=False), VOCAB.pad)
    assert abs((losses(model, fed)[0] - losses(model, plain)[0]).item()) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "stage"), [("cot", Stage(1)), ("coconut", THOUGHTS)])
def test_batched_decoding_is_single_decoding(kind, method, stage):
    model = network(kind)
    rows = rows_of(method, stage)
    together = greedy(model, rows, VOCAB.eos, limit=12)
    assert together == [greedy(model, [r], VOCAB.eos, limit=12)[0] for r in rows]
    if kind == "rotary":
        assert len({tuple(d.ids) for d in together}) > 1  # the prompts matter


@pytest.mark.parametrize("method", ["coconut", "acot"])
def test_decoding_with_a_cache_is_decoding_without(method):
    """Token by token: the likeliest one after the whole row so far, by the naive forward."""
    model = network("rotary")
    row = rows_of(method, THOUGHTS, feedback=True)[0]
    found = greedy(model, [row], VOCAB.eos, limit=6)[0]
    batch = collate([row], VOCAB.pad)
    said = model.head(naive(model, batch)).argmax(-1)[0].tolist()
    assert found.slots == said[row.question - 1 : row.prompt - 1]
    inputs = list(model.embed(batch.ids).unbind(1))[: row.prompt]
    for column in batch.columns:
        inputs[column] = model(torch.stack(inputs, 1), Context(Layout(True))).denoiser[
            :, column - 1
        ]
    out: list[int] = []
    while len(out) < 6:
        h = model(torch.stack(inputs, 1), Context(Layout(True))).denoiser[:, -1]
        token = int(model.head(h).argmax())
        if token == VOCAB.eos:
            break
        out.append(token)
        inputs.append(model.embed(torch.tensor([token])))
    assert found.ids == out
