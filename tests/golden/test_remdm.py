"""Transition probabilities of the published remasking code, met by ours."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from adlm.process.schedule import LogLinear
from adlm.samplers.canvas import Canvas
from adlm.samplers.categorical import Draw
from adlm.samplers.remask import Cap, Conf, ForwardBackward, Loop, Remasking, Rescale
from tests.golden.test_kernels import GOLDEN, Known, meets, stored

MASK = 39


def transition(
    rule: Remasking,
    known: dict[str, Tensor],
    p: Tensor,
    t: float,
    s: float,
    back: Tensor | None = None,
) -> Tensor:
    """(B, L, V): where each position goes from t to s; `back` is taken of each, else sigma of all.

    p: (B, L, V) of what is written.
    """
    move = rule.move(t, s, known["z"].shape[1])
    sigma = move.cut(rule.sigma(move))
    write, stay = move.unmask(sigma), torch.zeros_like(p)
    masked = write * p
    masked[..., MASK] = 1 - write
    back = sigma.expand(known["z"].shape) if back is None else back
    stay.scatter_(-1, known["z"][..., None], (1 - back)[..., None])
    stay[..., MASK] = back
    return torch.where(known["masked"][..., None], masked, stay)


def cases(*samplers: str) -> list[dict]:
    path = GOLDEN / "remdm" / "README.json"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    return [c for c in json.loads(path.read_text())["cases"] if c["sampler"] in samplers]


def test_cap_and_rescale_meet_the_published_probabilities():
    known = stored("remdm")
    kinds = {"remdm-cap": Cap, "remdm-rescale": Rescale}
    chosen = [c for c in cases(*kinds) if "nucleus_p" not in c]
    assert len(chosen) == 6
    for case in chosen:
        rule = kinds[case["sampler"]](LogLinear(), eta=case["eta"])
        ours = transition(rule, known, known["p_x0"], case["t"], case["s"])
        assert meets(ours, known[case["tensor"]]), case


def test_forward_backward_meets_the_published_probabilities():
    known, loop = stored("remdm"), stored("remdm", "expected-loop")
    ours = transition(ForwardBackward(LogLinear()), known, known["p_x0"], 0.7, 0.6)
    assert meets(ours, loop["q_forward-backward"])


def test_loop_meets_the_published_probabilities_within_its_phases():
    known, loop = stored("remdm"), stored("remdm", "expected-loop")
    for case in cases("remdm-loop"):
        name, crosses = case["tensor"], case["tensor"] == "loop1"
        rule = Loop(LogLinear(), eta=case["eta"])
        ours = transition(rule, known, known["p_x0"], case["t"], case["s"])
        theirs = loop[name if case["normalised"] else f"{name}_step"]
        # a published step across t_on goes on with the first phase's formula, beyond alpha_on
        assert meets(ours, theirs) is not crosses, case


def test_confidence_meets_the_published_remasking_probabilities():
    known = stored("remdm")
    written = ~known["masked"]
    for case, number in zip(cases("remdm-conf"), (6, 7), strict=True):
        rule, theirs = Conf(LogLinear(), published=True), known[f"sigma{number}_conf"]
        move = rule.move(case["t"], case["s"], 12)
        for near, taken in ((1 - 1e-6, written), (1 + 1e-6, torch.zeros_like(written))):
            canvas = SimpleNamespace(
                written=written, probability=-known["conf"], chance=theirs * near
            )
            assert torch.equal(rule.taken_back(canvas, move, theirs), taken)  # type: ignore[arg-type]
        ours = transition(rule, known, known["p_x0"], case["t"], case["s"], back=theirs)
        assert meets(ours, known[case["tensor"]])


def middle(p: Tensor, token: Tensor) -> Tensor:
    """(B, L) the number in [0, 1) in the middle of those by which a token is drawn."""
    at = token[..., None]
    return (p.cumsum(dim=-1).gather(-1, at) - p.gather(-1, at) / 2).squeeze(-1).clamp(0, 1)


@pytest.mark.parametrize("number", [6, 7])
def test_what_confidence_remembers_of_tokens_is_the_published(number):
    """The same tokens drawn and taken back leave the same numbers behind."""
    known = stored("remdm")
    after, (case,) = known[f"x_after{number}"], cases("remdm-conf")[number - 6 : number - 5]
    changed = after != known["z"]
    assert (changed & known["masked"]).any()
    canvas = Canvas(
        known["z"],
        torch.zeros_like(changed),
        MASK,
        Known((known["z"], known["logits"])),  # type: ignore[arg-type]
        Draw(),
        random=None,  # type: ignore[arg-type]
    )
    canvas.probability = torch.where(known["masked"], 1.0, -known["conf"])
    canvas.chance = torch.where(changed, 0.0, 1 - 1e-9)
    canvas.token_chance = middle(known["p_x0"], after)
    Conf(LogLinear(), published=True).step(canvas, case["t"], case["s"])
    assert torch.equal(canvas.z, after)
    ours = (-canvas.probability).masked_fill(~canvas.written, -torch.inf)
    assert meets(ours, known[f"conf_after{number}"])


def test_the_published_nucleus_is_the_compatible_one():
    known = stored("remdm")
    logits = known["logits"][known["masked"]]
    theirs = known["p_x0_nucleus"][known["masked"]]
    assert meets(Draw(nucleus=0.9, compat=True).probabilities(logits, MASK), theirs)
    # it leaves out the token that crosses the share; ours keeps it
    assert not meets(Draw(nucleus=0.9).probabilities(logits, MASK), theirs)
    (case,) = [c for c in cases("remdm-cap") if "nucleus_p" in c]
    draw, logits = Draw(nucleus=case["nucleus_p"], compat=True), known["logits"].flatten(0, 1)
    p = draw.probabilities(logits, MASK)
    rule = Cap(LogLinear(), eta=case["eta"])
    ours = transition(rule, known, p.view_as(known["logits"]), case["t"], case["s"])
    assert meets(ours, stored("remdm", "expected-loop")["q_cap_nucleus"])
