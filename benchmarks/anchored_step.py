"""ADLM with its bridge folded, against the paper-literal path and a plain MDLM of equal depth.

    python benchmarks/anchored_step.py [--rows 48] [--memory_rows 64] [--rounds 5]

V 50258, d 768, 12 + 6 blocks, L 128; a training step (forward and backward of the whole loss) and
an inference forward, in one run and one precision. Each case has a process of its own; they take
turns, and the ratios are medians over rounds (twice as many for inference), so that what else the
machine does falls on all alike. Peak memory is taken in further processes, one at a time and with
more rows (twice as many for inference); for training it is that of a second step with AdamW's
moments in memory. The seconds are without the update, which is the same for all (three processes
with moments do not fit into 24 GiB). FLOPs are those of the matrix products, counted in a call.

The literal path has the anchor's and the denoiser's logits at every position; folded and plain have
the denoiser's at the masked half. Inference is compared in three ways: logits against logits; log p
against log p, the literal one by both SUBS rules over all positions, as published; and logits, with
which samplers here end their forward (they normalise the rows that they draw from), against the
published forward. Tokens follow Zipf's law, so that anchors are about as frequent as in text.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models
from torch.utils.flop_counter import FlopCounterMode

from adlm import device as devices
from adlm import memory
from adlm.config import AnchorConfig, Config, DataConfig, ModelConfig, OptimConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.models.anchored import Anchored
from adlm.models.build import build_model
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.anchored import AnchoredDiffusion
from adlm.objectives.base import make_objective
from adlm.objectives.subs import log_probabilities
from adlm.results import Stamp, write_json
from adlm.system import peak_memory_mib
from adlm.train.optim import Optimizers
from adlm.types import Batch

V, LENGTH = 50258, 128
# what is freed goes back at once, so that the peak is what was alive together
TIDY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
PLAIN = "plain 18 blocks"
MODELS = {
    "inference": ("folded, logits", "folded, log p", "literal, logits", "literal, log p", PLAIN),
    "training step": ("folded", "literal", PLAIN),
}
PAIRS = {  # what is compared with the literal path
    "inference": {
        "logits against logits": ("folded, logits", "literal, logits"),
        "log p against log p": ("folded, log p", "literal, log p"),
        "logits against the published forward": ("folded, logits", "literal, log p"),
    },
    "training step": {"the whole loss": ("folded", "literal")},
}


def setting(kind: str) -> Config:
    base = Config(data=DataConfig(length=LENGTH))
    model = ModelConfig(width=768, heads=12, blocks=18)
    if kind.startswith("plain"):
        return replace(base, model=model)
    anchored = replace(model, blocks=6, anchor_blocks=12)
    return replace(base, objective="adlm", model=anchored, anchor=AnchorConfig(warmup=0.0))


def tokens(rows: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    weight = 1 / torch.arange(1, V - 1, dtype=torch.float64)  # EOS and mask do not occur
    x = torch.multinomial(weight, rows * LENGTH, True, generator=generator).view(rows, LENGTH)
    return Batch(x, torch.ones_like(x, dtype=torch.bool))


def words(size: int) -> Vocab:
    """A vocabulary of that size; EOS and the mask are its last two."""
    return make_vocab(Tokenizer(models.WordLevel({f"w{i}": i for i in range(size - 2)})))


def both_logits(model: Anchored, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Anchor and denoiser logits at every position, (B, L, V) each."""
    layout = Layout(causal=False)
    anchor = model.anchor_head(model.anchor_trunk(model.embed(z), layout))
    bridged = model.bridge.project(anchor).float()  # the stream is as wide as in the anchor trunk
    return anchor, model.head(model.trunk(bridged, layout))


def literal(model: Anchored, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As published: anchor logits and the denoiser's log-probabilities, (B, L, V) each.

    The anchor head runs once: its logits go through the bridge and into the anchor loss, where the
    mask stays in their normaliser, as in the published code.
    """
    anchor, logits = both_logits(model, z)
    logits = logits.float()
    logits[..., V - 1] = -torch.inf
    log_p = logits - logits.logsumexp(dim=-1, keepdim=True)
    seen = z != V - 1
    log_p[seen] = -torch.inf
    log_p[seen, z[seen]] = 0.0
    return anchor, log_p


def step(kind: str, phase: str, rows: int, precision: str, update: bool) -> Callable[[], None]:
    """One case, ready to be called again and again; `update` = with the optimiser."""
    config = setting(kind)
    torch.manual_seed(0)
    model = build_model(config, V).train(phase == "training step")
    objective = make_objective(config, words(V))
    batch = tokens(rows)
    noise = objective.noise(rows, LENGTH, torch.Generator().manual_seed(1))
    assert noise is not None
    view = objective.view(batch, noise)
    optim = Optimizers(model, OptimConfig(name="adamw")) if update else None

    def literal_loss() -> torch.Tensor:
        assert isinstance(model, Anchored)
        anchor, log_p = literal(model, view.z)
        chosen = objective.supervised(batch, view)
        weight = view.weight[:, None]
        nll = -log_p.gather(2, batch.x[..., None]).squeeze(2)  # (B, L), 0 where visible
        extra = F.cross_entropy(anchor.flatten(0, 1).float(), batch.x.flatten(), reduction="none")
        return (weight * (nll + config.anchor.gamma * extra.view_as(chosen) * chosen)).sum()

    def folded_loss() -> torch.Tensor:
        gamma = objective.gamma(1.0)
        score = objective.score(model, batch, noise, anchor=gamma > 0)
        return score.bound if score.anchor is None else score.bound + gamma * score.anchor

    def train() -> None:
        with devices.autocast(precision, "cpu"):
            whole = kind == "literal"
            total = literal_loss() if whole else folded_loss()
        (total / batch.x.numel()).backward()
        if optim:
            optim.step(0, 1)
        model.zero_grad(set_to_none=True)

    @torch.no_grad()
    def infer() -> None:
        if kind.startswith("literal"):
            assert isinstance(model, Anchored)
            (literal if kind.endswith("log p") else both_logits)(model, view.z)
            return
        h = model(view.z, Context(wanted=view.wanted)).denoiser  # (N, D)
        log_probabilities(h, model.head, V - 1) if kind.endswith("log p") else model.head(h)

    return train if phase == "training step" else infer


def serve(
    kind: str, phase: str, rows: int, precision: str, update: bool = False, tidy: bool = False
) -> None:
    """A process of one case: a call for each line of the input; seconds, memory, FLOPs come out."""
    if not tidy:
        memory.keep()  # as the program does
    work = step(kind, phase, rows, precision, update)
    once = devices.autocast(precision, "cpu")  # a sampler rounds the weights once,
    with once if phase == "inference" else nullcontext():  # training at every step
        for number, _ in enumerate(sys.stdin):
            # the second call, after what is done once
            counter = FlopCounterMode(display=False) if number == 1 and not tidy else nullcontext()
            began = time.perf_counter()
            with counter:
                work()
            seconds = time.perf_counter() - began
            peak = peak_memory_mib()
            flops = counter.get_total_flops() if isinstance(counter, FlopCounterMode) else 0
            print(json.dumps([seconds, peak, flops]), flush=True)


class Case:
    """One case in a process of its own."""

    def __init__(self, environment: dict[str, str], **case: Any):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--one", json.dumps(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | environment,
        )

    def call(self) -> tuple[float, float, int]:
        """Seconds of one call, the peak memory so far in MiB, and the second call's FLOPs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a case ended with code {self.process.wait()}")
        seconds, peak, flops = json.loads(line)
        return seconds, peak, flops

    def end(self) -> None:
        self.process.communicate()


def measure(phase: str, rows: int, memory_rows: int, precision: str, rounds: int) -> dict[str, Any]:
    """Seconds of each call, peak memory, and what they say."""
    models, training = MODELS[phase], phase == "training step"
    peaks, flops, seconds = {}, {}, {kind: [] for kind in models}
    for kind in models:
        case = {"kind": kind, "phase": phase, "rows": memory_rows, "precision": precision}
        alone = Case(TIDY, **case, update=training, tidy=True)
        for _ in range(2 if training else 1):  # moments are there from the first update on
            peaks[kind] = alone.call()[1]
        alone.end()
        print(f"{phase}, {kind}: {peaks[kind]:,.0f} MiB at {memory_rows} rows", flush=True)
    cases = {k: Case({}, kind=k, phase=phase, rows=rows, precision=precision) for k in models}
    for kind, case in cases.items():
        case.call()  # the first calls set things up
        flops[kind] = case.call()[2]
    for number in range(rounds):
        for place in range(len(models)):
            kind = models[(number + place) % len(models)]  # each is first, second and last in turn
            seconds[kind].append(cases[kind].call()[0])
        latest = ", ".join(f"{kind} {seconds[kind][-1]:.2f} s" for kind in models)
        print(f"{phase}, round {number + 1}: {latest}", flush=True)
    for case in cases.values():
        case.end()

    def ratio(above: str, below: str) -> float:
        pairs = zip(seconds[above], seconds[below], strict=True)
        return statistics.median(a / b for a, b in pairs)

    return {
        "seconds": seconds,
        "peak_memory_mib": peaks,
        "memory_rows": memory_rows,
        "flops": flops,
        "against_literal": {
            name: {
                "as_fast": ratio(other, ours),
                "by_flops": flops[other] / flops[ours],
                "memory": peaks[ours] / peaks[other],
            }
            for name, (ours, other) in PAIRS[phase].items()
        },
        "time_of_plain": ratio(models[0], PLAIN),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--memory_rows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--out", default="results/bench-anchored-step.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a single case, in a process of its own
    given = parser.parse_args()
    if given.one:
        serve(**json.loads(given.one))
        return
    result: dict[str, Any] = {
        "command": sys.argv,
        "vocabulary": V,
        "length": LENGTH,
        "rows": given.rows,
        "anchor_share": anchor_share(given.rows),
        "phases": {},
    }
    for phase in ("inference", "training step"):
        more = 1 if phase == "training step" else 2  # inference is shorter and smaller
        how = (given.rows, more * given.memory_rows, given.precision, more * given.rounds)
        result["phases"][phase] = found = measure(phase, *how)
        for name, pair in found["against_literal"].items():
            print(
                f"{phase}, {name}: {pair['as_fast']:.2f}x as fast as literal "
                f"({pair['by_flops']:.2f}x by FLOPs), {pair['memory']:.2f} of its memory"
            )
        print(f"{phase}: {found['time_of_plain']:.2f}x the time of {PLAIN}", flush=True)
    write_json(Path(given.out), {**result, **vars(Stamp.now("cpu", given.precision))})


def anchor_share(rows: int) -> float:
    """How many of the tokens are anchors."""
    batch = tokens(rows)
    objective = make_objective(setting("folded"), words(V))
    assert isinstance(objective, AnchoredDiffusion)
    return objective.anchors(batch.x, batch.valid).float().mean().item()


if __name__ == "__main__":
    main()
