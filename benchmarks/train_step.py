"""Training speed as a share of this machine's matrix-product peak, measured in the same run.

    python benchmarks/train_step.py [--sizes nano tiny small] [--precision fp32 bf16] [--compile]

A step is the pass forward and back, the clipping and the optimiser's update (Muon for the trunk's
matrices, AdamW for the rest). Update and passes are timed apart, and the update counts by the part
of the recipe's batch that the pass has: at nano the whole. FLOPs count the matrix products that are
really done: the trunk at all positions, the vocabulary head at the masked half, Muon's five
Newton-Schulz steps. The peak is the best of several matrix products in the same precision. Memory
is the process's peak, for rows of L and of 4 L with the same number of tokens.

Each case is a process of its own: with all that the processor has (`native`), and in fp32 as on an
ordinary machine, without AVX-512 and bf16 units (`avx2`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch._inductor.config as inductor
from tokenizers import Tokenizer, models
from torch import nn

from adlm import device as devices
from adlm.config import Config, DataConfig, ModelConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.measure import matmul_flops, seconds
from adlm.models.build import build_model
from adlm.models.cost import flops_per_token
from adlm.models.size import resize
from adlm.objectives.base import make_objective
from adlm.results import Stamp, write_json
from adlm.system import peak_memory_mib
from adlm.train.optim import Optimizers, trunk_matrices
from adlm.types import Batch

# what keeps torch, oneDNN and MKL from using more than AVX2
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
# size -> (vocabulary, L, rows of a pass)
SHAPES = {"nano": (2048, 64, 32), "tiny": (4096, 128, 16), "small": (50258, 128, 16)}


def words(size: int) -> Vocab:
    """A vocabulary of that size; EOS and the mask are its last two."""
    return make_vocab(Tokenizer(models.WordLevel({f"w{i}": i for i in range(size - 2)})))


def muon_flops(model: nn.Module) -> float:
    """Matrix products of Muon's update: five times X X^T, A A and B X of each (m, n), m <= n."""
    shapes = [sorted(p.shape) for p in trunk_matrices(model)]
    return float(sum(5 * (4 * m * m * n + 2 * m**3) for m, n in shapes))


def measure(size: str, precision: str, compiled: bool, stretch: int, isa: str) -> dict:
    """One case: tokens/s, share of the peak, what passes and update take, peak memory."""
    vocab_size, length, rows = SHAPES[size]
    config = resize(Config(data=DataConfig(length=length), model=ModelConfig()), size)
    part = rows / config.train.batch  # of a step: the update is done once a batch
    length, rows = length * stretch, max(1, rows // stretch)
    config = replace(config, data=replace(config.data, length=length))
    vocab = words(vocab_size)
    torch.manual_seed(0)
    model = build_model(config, vocab_size).train()
    if compiled:
        if isa == "avx2":
            inductor.cpp.simdlen = 256  # bits
        model.trunk.compile(dynamic=False)
    objective = make_objective(config, vocab)
    optim = Optimizers(model, config.optim)
    x = torch.randint(0, vocab_size - 2, (rows, length))
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    noise = objective.noise(rows, length, torch.Generator().manual_seed(0))
    assert noise is not None
    share = objective.corrupt(batch, noise)[0].masked.float().mean().item()

    def passes() -> None:
        model.zero_grad(set_to_none=True)
        with devices.autocast(precision, "cpu"):
            score = objective.score(model, batch, noise)
        (score.bound / x.numel()).backward()

    passes()
    if not all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters()):
        sys.exit("a gradient is not finite: the time of such a pass says nothing")
    gradients = [p.grad for p in model.parameters()]

    def update() -> None:
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(model.parameters(), config.optim.clip)
        optim.step(0, 1)

    peak = max(matmul_flops(precision, size=n, budget=1.0) for n in (1024, 2048))
    pass_time, update_time = seconds(passes, 4.0), seconds(update, 1.0)
    peak = max(peak, *(matmul_flops(precision, size=n, budget=1.0) for n in (1024, 2048)))
    took = pass_time + part * update_time
    pass_flops = 3 * flops_per_token(config, vocab_size, share, share) * x.numel()
    flops = pass_flops + part * muon_flops(model)
    return {
        "size": size,
        "precision": precision,
        "isa": isa,
        "compile": compiled,
        "width": config.model.width,
        "blocks": config.model.blocks,
        "vocabulary": vocab_size,
        "length": length,
        "rows": rows,
        "tokens_per_s": x.numel() / took,
        "pass_ms": 1000 * pass_time,
        "update_ms": 1000 * update_time,
        "update_share_of_time": part * update_time / took,
        "gflops": flops / took / 1e9,
        "matmul_peak_gflops": peak / 1e9,
        "share_of_peak": flops / took / peak,
        "passes_share_of_peak": pass_flops / pass_time / peak,
        "peak_memory_mib": peak_memory_mib(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument(
        "--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"]
    )
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", default="results/bench-train-step.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a single case, in a process of its own
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(**json.loads(given.one))))
        return
    ways = [(p, "native") for p in given.precision] + [("fp32", "avx2")]
    cases = [
        {"size": s, "precision": p, "compiled": given.compile, "stretch": stretch, "isa": isa}
        for s in given.sizes
        for p, isa in ways
        for stretch in (1, 4)
    ]
    found = []
    for case in cases:
        done = subprocess.run(
            [sys.executable, __file__, "--one", json.dumps(case)],
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, **(AVX2 if case["isa"] == "avx2" else {})},
        )
        if done.returncode:
            sys.exit(done.stderr)
        row = json.loads(done.stdout.splitlines()[-1])
        found.append(row)
        print(
            f"{row['size']:<6} {row['precision']} {row['isa']:<6} L {row['length']:<4} "
            f"{row['tokens_per_s']:>8,.0f} tokens/s  {row['gflops']:>5,.0f} of "
            f"{row['matmul_peak_gflops']:,.0f} GFLOP/s = {row['share_of_peak']:.0%} "
            f"(passes {row['passes_share_of_peak']:.0%}), update {row['update_share_of_time']:.0%} "
            "of the time",
            flush=True,
        )
    result = {"command": sys.argv, "avx2": AVX2, "rows": found}
    write_json(Path(given.out), {**result, **vars(Stamp.now("cpu", "as stated"))})


if __name__ == "__main__":
    main()
