"""What generation costs, and what quality it buys: each case in a process of its own.

Wall-clock, tokens a second, network passes, FLOPs and peak memory for a grid of steps, lengths and
batch sizes; AR and A2R have one setting of steps, one pass a token, with a KV cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from adlm import api, registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.models.cost import flops_per_token
from adlm.samplers import template
from adlm.system import peak_memory_mib

WORKER = (
    "import json, sys; from adlm.eval.efficiency import Case, measure;"
    "print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))"
)


@dataclass(frozen=True)
class Case:
    """One point of the grid."""

    checkpoint: str
    sampler: str | None
    steps: int | None
    length: int
    batch: int
    texts: int  # written in all, in batches
    nucleus: float
    seed: int
    device: str
    precision: str


def cases(
    runs: Sequence[str],
    configs: Sequence[Config],
    sampler: str | None,
    steps: Sequence[int],
    lengths: Sequence[int],
    batches: Sequence[int],
    **same: Any,
) -> list[Case]:
    """The grid; causal models have no steps to choose."""
    out = []
    for run, config in zip(runs, configs, strict=True):
        causal = is_causal(config)
        for length in lengths or [config.data.length]:
            for batch in batches:
                for count in [None] if causal else steps:
                    chosen = None if causal else sampler
                    out.append(Case(run, chosen, count, length, batch, **same))
    return out


def is_causal(config: Config) -> bool:
    return registry.lookup("objective", config.objective).causal


def measure(case: Case) -> dict[str, Any]:
    """Write the texts and say what it cost; the first batch only warms up."""
    model = api.load(case.checkpoint, case.device)
    given = template.after("", case.length, model.vocab)
    seconds, nfe, heads, texts, tokens = 0.0, 0.0, 0, [], []
    for low in range(-case.batch, case.texts, case.batch):
        count = case.batch if low < 0 else min(case.batch, case.texts - low)
        how = api.settings(
            n=count,
            sampler=case.sampler,
            steps=case.steps,
            nucleus=case.nucleus,
            seed=case.seed + max(0, low),
            precision=case.precision,
            at_once=case.batch,
        )
        made = model.write(given, how)
        if low < 0:
            continue
        seconds += made.seconds
        nfe += float(made.nfe.sum())
        heads += made.heads
        texts += made.texts
        tokens += made.ids
    passes = nfe / case.texts
    return {
        **asdict(case),
        "objective": model.config.objective,
        "sampler": made.sampler,
        "seconds_per_text": seconds / case.texts,
        "tokens_per_s": case.texts * case.length / seconds,
        "nfe": passes,
        "gflops_per_text": 1e-9
        * flops(model.config, model.vocab.size, case.length, passes, heads / case.texts),
        "peak_memory_mib": peak_memory(model.device),
        "samples": texts,
        "tokens": tokens,
    }


def flops(config: Config, vocab: int, length: int, passes: float, heads: float) -> float:
    """FLOPs of one text of `length` tokens with so many passes and head positions.

    A diffusion pass is all positions; a causal one a single position that sees half of the text on
    average.
    """
    seen = max(1, length // 2) if is_causal(config) else length
    shaped = replace(config, data=replace(config.data, length=max(2, seen)))
    positions = passes if is_causal(config) else passes * length
    return (
        positions * flops_per_token(shaped, vocab, 0.0) + heads * 2.0 * config.model.width * vocab
    )


def peak_memory(device: str) -> float | None:
    """MiB: of the process, or on a GPU of its tensors; None where the system does not tell."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return peak_memory_mib()


def in_process(case: Case, threads: int) -> dict[str, Any]:
    """Measure a case in a process of its own, for its memory."""
    environment = dict(os.environ)
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    words = [sys.executable, "-c", WORKER, json.dumps(asdict(case))]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was stopped"])[-1]
        raise UserError(f"{case.checkpoint} could not be measured: {last.split(': ', 1)[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (cost, badness) that no other point beats in both.

    Example:
        >>> frontier([(1, 9), (2, 5), (3, 7), (4, 1)])
        [0, 1, 3]
    """
    order = sorted(range(len(points)), key=lambda i: points[i])
    best, kept = float("inf"), []
    for i in order:
        if points[i][1] < best:
            best = points[i][1]
            kept.append(i)
    return kept


def settings_of(case: dict[str, Any]) -> str:
    """A label."""
    steps = "" if case["steps"] is None else f", {case['steps']} steps"
    return (
        f"{case['objective']}, {case['sampler']}{steps}, L {case['length']}, batch {case['batch']}"
    )
