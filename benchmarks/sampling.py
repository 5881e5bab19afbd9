"""Samplers against a literal reference, and beside AR with a KV cache.

    python benchmarks/sampling.py [--precision bf16] [--every 16]

`small` shapes (12 blocks, d 768), V 50258, L 256, T 256, batch 8, random weights: the time does not
depend on what the network says. The literal reference is the published loop written plainly: every
step passes the whole batch, makes all (B, L, V) logits, draws a token in fp64 at every position and
then keeps those that change. One process, one precision.

Of the T steps every 16th is run, from a canvas that has the number of masks that this step meets,
and the time is multiplied by 16: whether a row is passed depends on this step's positions alone, so
this measures the whole run. `--every 1` runs all steps one after the other. AR runs in full.

What keeps something between steps (BD3-LM's exact cache, the dual cache, anchors every 4 steps) is
run step after step, in full but for ADLM: of its steps, which all cost the same, the first 32 are
timed (`--steps`), and the note says so. Random weights are never sure, so four tokens a pass stand
for a threshold: that is assumed. As in `adlm sample`, weights are rounded to bf16 once a run.

Beside AR and BD3-LM stand the matrix products of their passes alone, on the same weights: no code
that makes these passes by the same products can take less, so their ratio is what this processor
allows.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm import device as devices
from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.process.schedule import make_schedule
from adlm.results import Stamp, write_json
from adlm.samplers.base import Canvas, Policy, make_policy, run
from adlm.samplers.block_diffusion import BlockCanvas, EachBlock
from adlm.samplers.blocks import InBlocks
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.confidence import Confidence
from adlm.samplers.first_hitting import FirstHitting
from adlm.samplers.random import RowRandom
from adlm.samplers.remask import Remasking

V, LENGTH, STEPS, BATCH, WIDTH, BLOCK = 50258, 256, 256, 8, 768, 16
MASK = V - 1
DUAL = CacheSettings("dual", every=10**6)  # renewed when a block begins
SAMPLERS = ("ancestral", "first-hitting", "remdm-loop", "remdm-cap", "confidence")


def rounded_once(case: Callable[..., dict]) -> Callable[..., dict]:
    """Have a case round the weights once, as `adlm sample` does."""

    @functools.wraps(case)
    def wrapped(*given: Any, **how: Any) -> dict:
        precision = next(g for g in given if isinstance(g, str) and g in ("fp32", "bf16"))
        with devices.autocast(precision, "cpu"):
            return case(*given, **how)

    return wrapped


def model_of(objective: str) -> Denoiser:
    torch.manual_seed(0)
    small = ModelConfig(width=WIDTH, heads=12, blocks=12)
    config = Config(objective=objective, data=DataConfig(length=LENGTH), model=small)
    if objective == "adlm":
        config = replace(config, model=replace(small, blocks=6, anchor_blocks=12))
    if objective == "bd3lm":
        config = replace(config, process=ProcessConfig(block=BLOCK))
    return build_model(config, V).eval()


def empty(model: Denoiser, precision: str, **how: object) -> Canvas:
    z = torch.full((BATCH, LENGTH), MASK)
    frozen = torch.zeros_like(z, dtype=torch.bool)
    easel = BlockCanvas if model.block else Canvas
    return easel(z, frozen, MASK, model, Draw(), RowRandom(0, range(BATCH)), precision, **how)


def literal_step(
    model: Denoiser, z: Tensor, policy: Policy, t: float, s: float, precision: str
) -> Tensor:
    """One step of the published loop, with nothing left out."""
    with torch.no_grad(), devices.autocast(precision, "cpu"):
        logits = model.logits(z).double()  # (B, L, V)
    logits[..., MASK] = -torch.inf
    p = logits.softmax(dim=-1)
    gumbel = -(torch.rand_like(p).clamp_(min=1e-300).log_()).log_()
    drawn = (p.log_() + gumbel).argmax(dim=-1)  # (B, L)
    move = policy.transition(t, s)
    sigma = policy.sigma(policy.move(t, s, LENGTH)) if isinstance(policy, Remasking) else 0.0
    u = torch.rand(z.shape)
    write = (z == MASK) & (u < move.unmask(sigma))
    back = (z != MASK) & (u < sigma)
    return torch.where(write, drawn, torch.where(back, MASK, z))


@rounded_once
def literal(model: Denoiser, policy: Policy, precision: str, timed: int) -> dict:
    """Seconds of all T steps, each of which costs the same, from a few that are spread evenly."""
    times = list(policy.times(empty(model, precision), STEPS))
    literal_step(model, half_way(policy, *times[0], 0), policy, *times[0], precision)  # warm-up
    seconds = 0.0
    for i in range(timed):
        t, s = times[i * STEPS // timed]
        z = half_way(policy, t, s, i)
        began = time.perf_counter()
        literal_step(model, z, policy, t, s, precision)
        seconds += time.perf_counter() - began
    return row(seconds / timed * STEPS, STEPS, f"{timed} of {STEPS} steps timed")


def half_way(policy: Policy, t: float, s: float, seed: int) -> Tensor:
    """(B, L) a canvas at time t: first-hitting has written one token a step, others alpha_t."""
    generator = torch.Generator().manual_seed(seed)
    share = 1 - t if isinstance(policy, FirstHitting | Confidence) else policy.alphas(t, s)[0]
    tokens = torch.randint(0, MASK, (BATCH, LENGTH), generator=generator)
    keys = torch.rand(BATCH, LENGTH, generator=generator)
    if isinstance(policy, FirstHitting | Confidence):
        visible = keys.argsort(dim=1).argsort(dim=1) < round(share * LENGTH)
    else:
        visible = keys < share
    return torch.where(visible, tokens, MASK)


def row(seconds: float, nfe: float, note: str = "") -> dict:
    tokens = BATCH * LENGTH
    return {
        "seconds": seconds,
        "tokens_per_s": tokens / seconds,
        "nfe": nfe,
        "ms_per_pass": 1000 * seconds / max(nfe, 1),
        "note": note,
    }


@rounded_once
def ours(model: Denoiser, name: str, precision: str, every: int) -> dict:
    if name == "causal":
        canvas = empty(model, precision)
        began = time.perf_counter()
        run_causal(canvas, bos=0)
        return row(time.perf_counter() - began, float(canvas.nfe.double().mean()))
    policy = make_policy(name, make_schedule("log-linear"))
    if every == 1:
        canvas = empty(model, precision)
        began = time.perf_counter()
        run(canvas, policy, STEPS)
        return row(time.perf_counter() - began, float(canvas.nfe.double().mean()))
    times = list(policy.times(empty(model, precision), STEPS))
    seconds = nfe = 0.0
    for i in range(every // 2, STEPS, every):
        canvas = empty(model, precision)
        canvas.z = half_way(policy, *times[i], i)
        canvas.random = RowRandom(i, range(BATCH))
        began = time.perf_counter()
        canvas.next_step()
        policy.step(canvas, *times[i])
        seconds += time.perf_counter() - began
        nfe += float(canvas.nfe.double().mean())
    return row(seconds * every, nfe * every, f"every {every}th step timed")


@rounded_once
def in_turn(
    model: Denoiser, policy: Policy, steps: int, precision: str, most: int = 0, **how: object
) -> dict:
    """Time a run step after step: all of its steps, or the first `most` of them."""
    canvas = empty(model, precision, **how)
    if model.block:
        policy = EachBlock(policy.schedule, policy)
    total = sum(1 for _ in policy.times(empty(model, precision, **how), steps))
    done, began = 0, time.perf_counter()
    for t, s in policy.times(canvas, steps):
        canvas.next_step()
        canvas.tell(policy.visible(canvas, t, s))
        policy.step(canvas, t, s)
        done += 1
        if done == most:
            break
    seconds, scale = time.perf_counter() - began, total / done
    note = "" if done == total else f"the first {done} of {total} steps timed"
    made = row(seconds * scale, float(canvas.nfe.double().mean()) * scale, note)
    return {**made, "positions": float(canvas.passed.double().mean()) * scale}


@torch.no_grad()
def products(model: Denoiser, precision: str, passes: list[tuple[int, int, int]]) -> dict:
    """Time the products of a run alone; passes: (times, positions of the trunk, of the head)."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    layers = [m for m in model.trunk.modules() if isinstance(m, torch.nn.Linear)]
    weights, head = [m.weight.to(dtype) for m in layers], model.head.weight.to(dtype)
    seconds = 0.0
    for times, positions, asked in passes:
        of_trunk = {w.shape[1]: torch.randn(positions, w.shape[1]).to(dtype) for w in weights}
        of_head = torch.randn(asked, WIDTH).to(dtype)
        lapses = []
        for _ in range(6):  # the first is the warm-up
            began = time.perf_counter()
            for weight in weights:
                F.linear(of_trunk[weight.shape[1]], weight)
            F.linear(of_head, head)
            lapses.append(time.perf_counter() - began)
        seconds += times * statistics.median(lapses[1:])
    return row(seconds, sum(times for times, *_ in passes), "matrix products alone")


def floors(precision: str, tell: Callable[[str, dict], None]) -> None:
    """Time what AR's and BD3-LM's passes cannot do without."""
    model, tokens, blocks = model_of("bd3lm"), BATCH * BLOCK, LENGTH // BLOCK
    tell("AR, products", products(model, precision, [(LENGTH, BATCH, BATCH)]))
    store = (blocks - 1, tokens, 0)  # a finished block is remembered
    for each in (4, 1):  # of a block with n masks, n positions go through the head
        left = [(blocks, tokens, BATCH * n) for n in range(BLOCK, 0, -each)]
        tell(f"BD3-LM, {each} a pass, products", products(model, precision, [*left, store]))


def fast(precision: str, most: int, tell: Callable[[str, dict], None]) -> None:
    """Time what is to be as fast as AR."""
    schedule = make_schedule("log-linear")
    few, surest = LENGTH // 4, make_policy("confidence", schedule)
    one = make_policy("first-hitting", schedule)
    model = model_of("bd3lm")
    tell("BD3-LM, 4 a pass", in_turn(model, surest, few, precision))
    tell("BD3-LM, 1 a pass", in_turn(model, one, LENGTH, precision))
    model = model_of("mdlm")
    dual = InBlocks(schedule, surest, 32)
    tell("dual cache, 4 a pass", in_turn(model, dual, few, precision, cache=DUAL))
    model = model_of("adlm")
    for k in (1, 4):
        made = in_turn(model, one, LENGTH, precision, most, anchor_every=k)
        tell(f"ADLM, anchors every {k}", made)


def compared(found: dict[str, dict]) -> dict[str, float]:
    """Tokens a second of one case over another's."""
    pairs = {
        "BD3-LM, 4 a pass / AR": ("BD3-LM, 4 a pass", "AR, KV cache"),
        "BD3-LM, 1 a pass / AR": ("BD3-LM, 1 a pass", "AR, KV cache"),
        "dual cache, 4 a pass / ancestral": ("dual cache, 4 a pass", "ancestral"),
        "ADLM, anchors every 4 / every 1": ("ADLM, anchors every 4", "ADLM, anchors every 1"),
    }
    for each in (4, 1):
        name = f"BD3-LM, {each} a pass"
        pairs[f"{name} / AR, products alone"] = (f"{name}, products", "AR, products")
    speed = {name: made["tokens_per_s"] for name, made in found.items()}
    return {name: speed[a] / speed[b] for name, (a, b) in pairs.items()}


def make_tiny() -> None:
    """Shrink everything, to try the script."""
    global V, MASK, LENGTH, STEPS, BATCH, WIDTH
    V, LENGTH, STEPS, BATCH, WIDTH = 129, 64, 64, 2, 48
    MASK = V - 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--timed", type=int, default=4, help="steps of the literal loop to time")
    parser.add_argument("--out", default="results/bench-sampling.json")
    parser.add_argument("--every", type=int, default=16, help="which steps of the others to time")
    parser.add_argument("--steps", type=int, default=32, help="steps of ADLM to time; 0 = all")
    parser.add_argument("--tiny", action="store_true", help="a tiny network, to try the script")
    given = parser.parse_args()
    if given.tiny:
        make_tiny()
    found: dict[str, dict] = {}

    def tell(name: str, made: dict) -> None:
        found[name] = made
        print(
            f"{name:<28}{made['seconds']:8.1f} s {made['tokens_per_s']:8.1f} tokens/s "
            f"{made['nfe']:7.1f} passes a row {made['ms_per_pass']:8.1f} ms a pass  {made['note']}",
            flush=True,
        )

    floors(given.precision, tell)
    tell("AR, KV cache", ours(model_of("ar"), "causal", given.precision, 1))
    mdlm = model_of("mdlm")
    for name in ("ancestral", "remdm-loop"):
        policy = make_policy(name, make_schedule("log-linear"))
        tell(f"{name}, literal", literal(mdlm, policy, given.precision, given.timed))
    for name in SAMPLERS:
        tell(name, ours(mdlm, name, given.precision, given.every))
    del mdlm
    tell("ADLM, ancestral", ours(model_of("adlm"), "ancestral", given.precision, given.every))
    fast(given.precision, given.steps, tell)
    ratios = {
        name: found[f"{name}, literal"]["seconds"] / found[name]["seconds"]
        for name in ("ancestral", "remdm-loop")
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.1f}x as fast as literal")
    speedups = compared(found)
    for name, ratio in speedups.items():
        print(f"{name}: {ratio:.2f}")
    settings = {"vocabulary": V, "length": LENGTH, "steps": STEPS, "batch": BATCH, "seed": 0}
    command = f"benchmarks/sampling.py --timed {given.timed} --every {given.every}"
    command += f" --steps {given.steps}" + " --tiny" * given.tiny
    compare = {"times_as_fast_as_literal": ratios, "tokens_per_s_ratios": speedups}
    result = {"command": command, **settings, "cases": found, **compare}
    write_json(Path(given.out), {**result, **vars(Stamp.now("cpu", given.precision))})


if __name__ == "__main__":
    main()
