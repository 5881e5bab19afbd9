"""Samplers against a literal reference, and beside AR with a KV cache.

    python benchmarks/sampling.py [--precision bf16]

`small` shapes (12 blocks, d 768), V 50258, L 256, T 256, batch 8, random weights: the time does not
depend on what the network says. The literal reference is the published loop written plainly: every
step passes the whole batch, makes all (B, L, V) logits, draws a token in fp64 at every position and
then keeps those that change. Each of its steps costs the same, so a few are timed and the mean is
multiplied by T; the others run in full. All in one process and one precision.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from adlm import device as devices
from adlm.config import Config, DataConfig, ModelConfig
from adlm.models.denoiser import Denoiser
from adlm.models.sizes import build
from adlm.process.schedule import make_schedule
from adlm.results import stamped, write_json
from adlm.samplers.base import Canvas, Policy, make_policy, run
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.random import RowRandom
from adlm.samplers.remask import Remasking, unmask_chance

V, LENGTH, STEPS, BATCH = 50258, 256, 256, 8
MASK = V - 1
SAMPLERS = ("ancestral", "first-hitting", "remdm-loop", "remdm-cap", "confidence")


def model_of(objective: str) -> Denoiser:
    torch.manual_seed(0)
    small = ModelConfig(width=768, heads=12, blocks=12)
    config = Config(objective=objective, data=DataConfig(length=LENGTH), model=small)
    if objective == "adlm":
        config = replace(config, model=replace(small, blocks=6, anchor_blocks=12))
    return build(config, V).eval()


def empty(model: Denoiser, precision: str) -> Canvas:
    z = torch.full((BATCH, LENGTH), MASK)
    frozen = torch.zeros_like(z, dtype=torch.bool)
    return Canvas(z, frozen, MASK, model, Draw(), RowRandom(0, range(BATCH)), precision)


def literal_step(
    model: Denoiser, z: Tensor, policy: Policy, t: float, s: float, precision: str
) -> Tensor:
    """One step of the published loop, with nothing left out."""
    with torch.no_grad(), devices.autocast(precision, "cpu"):
        logits = model.head(model.hidden(z)).double()  # (B, L, V)
    logits[..., MASK] = -torch.inf
    p = logits.softmax(dim=-1)
    gumbel = -(torch.rand_like(p).clamp_(min=1e-300).log_()).log_()
    drawn = (p.log_() + gumbel).argmax(dim=-1)  # (B, L)
    alpha_t, alpha_s = policy.alphas(t, s)
    sigma = policy.sigma(alpha_t, alpha_s, t, s) if isinstance(policy, Remasking) else 0.0
    u = torch.rand(z.shape)
    write = (z == MASK) & (u < unmask_chance(alpha_t, alpha_s, sigma))
    back = (z != MASK) & (u < sigma)
    return torch.where(write, drawn, torch.where(back, MASK, z))


def literal(model: Denoiser, policy: Policy, precision: str, timed: int) -> dict:
    """Seconds of all T steps, from a few that are spread over the run."""
    z = torch.full((BATCH, LENGTH), MASK)
    times = list(policy.times(empty(model, precision), STEPS))
    z = literal_step(model, z, policy, *times[0], precision)  # warm-up
    began = time.perf_counter()
    for i in range(timed):
        z = literal_step(model, z, policy, *times[i * STEPS // timed], precision)
    a_step = (time.perf_counter() - began) / timed
    return row(a_step * STEPS, STEPS, f"{timed} of {STEPS} steps timed")


def row(seconds: float, nfe: float, note: str = "") -> dict:
    tokens = BATCH * LENGTH
    return {
        "seconds": seconds,
        "tokens_per_s": tokens / seconds,
        "nfe": nfe,
        "ms_per_pass": 1000 * seconds / max(nfe, 1),
        "note": note,
    }


def ours(model: Denoiser, name: str, precision: str) -> dict:
    canvas = empty(model, precision)
    began = time.perf_counter()
    if name == "causal":
        run_causal(canvas, bos=0)
    else:
        run(canvas, make_policy(name, make_schedule("log-linear")), STEPS)
    return row(time.perf_counter() - began, float(canvas.nfe.double().mean()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--timed", type=int, default=8, help="steps of the literal loop to time")
    parser.add_argument("--out", default="results/bench-sampling.json")
    given = parser.parse_args()
    found: dict[str, dict] = {}

    def tell(name: str, made: dict) -> None:
        found[name] = made
        print(
            f"{name:<22}{made['seconds']:8.1f} s {made['tokens_per_s']:8.1f} tokens/s "
            f"{made['nfe']:7.1f} passes a row {made['ms_per_pass']:8.1f} ms a pass  {made['note']}",
            flush=True,
        )

    tell("AR, KV cache", ours(model_of("ar"), "causal", given.precision))
    mdlm = model_of("mdlm")
    for name in ("ancestral", "remdm-loop"):
        policy = make_policy(name, make_schedule("log-linear"))
        tell(f"{name}, literal", literal(mdlm, policy, given.precision, given.timed))
    for name in SAMPLERS:
        tell(name, ours(mdlm, name, given.precision))
    del mdlm
    tell("ADLM, ancestral", ours(model_of("adlm"), "ancestral", given.precision))
    ratios = {
        name: found[f"{name}, literal"]["seconds"] / found[name]["seconds"]
        for name in ("ancestral", "remdm-loop")
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.1f}x as fast as literal")
    settings = {"vocabulary": V, "length": LENGTH, "steps": STEPS, "batch": BATCH, "seed": 0}
    result = {"command": sys.argv, **settings, "cases": found, "times_as_fast_as_literal": ratios}
    write_json(Path(given.out), stamped(result, "cpu", given.precision))


if __name__ == "__main__":
    main()
