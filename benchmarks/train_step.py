"""Training speed as a share of this machine's matrix-product peak, measured in the same run.

    python benchmarks/train_step.py [--sizes nano tiny small] [--precision fp32 bf16] [--compile]

The peak is the best of several matrix products in the same precision. FLOPs count the matrix
products of a step that are really done: the trunk at all positions, the vocabulary head at the
masked half. Memory is the process's peak, for rows of L and of 4 L with the same number of tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models

from adlm import device as devices
from adlm.config import Config, DataConfig, ModelConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.measure import matmul_flops, seconds
from adlm.models.sizes import build, flops_per_token, resize
from adlm.objectives.base import make
from adlm.results import stamped, write_json
from adlm.types import Batch

# size -> (vocabulary, L, rows in a step)
SHAPES = {"nano": (2048, 64, 32), "tiny": (4096, 128, 16), "small": (50258, 128, 16)}


def words(size: int) -> Vocab:
    """A vocabulary of that size; EOS and the mask are its last two."""
    return make_vocab(Tokenizer(models.WordLevel({f"w{i}": i for i in range(size - 2)})))


def measure(size: str, precision: str, compiled: bool, stretch: int = 1) -> dict:
    """One size: tokens/s, share of the peak, peak memory."""
    vocab_size, length, rows = SHAPES[size]
    length, rows = length * stretch, max(1, rows // stretch)
    base = Config(data=DataConfig(length=length), model=ModelConfig())
    config = resize(base, size)
    vocab = words(vocab_size)
    torch.manual_seed(0)
    model = build(config, vocab_size).train()
    if compiled:
        model.trunk.compile(dynamic=False)
    objective = make(config, vocab)
    x = torch.randint(0, vocab_size - 2, (rows, length))
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    noise = objective.noise(rows, length, torch.Generator().manual_seed(0))
    assert noise is not None
    share = objective.corrupt(batch, noise)[0].masked.float().mean().item()

    def step() -> None:
        with devices.autocast(precision, "cpu"):
            score = objective.score(model, batch, noise)
        (score.total / x.numel()).backward()
        model.zero_grad(set_to_none=True)

    peak = max(matmul_flops(precision, size=n, budget=1.0) for n in (1024, 2048))
    took = seconds(step, 4.0)
    peak = max(peak, *(matmul_flops(precision, size=n, budget=1.0) for n in (1024, 2048)))
    flops = 3 * flops_per_token(config, vocab_size, share, share) * x.numel() / took
    return {
        "size": size,
        "precision": precision,
        "compile": compiled,
        "width": config.model.width,
        "blocks": config.model.blocks,
        "vocabulary": vocab_size,
        "length": length,
        "rows": rows,
        "tokens_per_s": x.numel() / took,
        "gflops": flops / 1e9,
        "matmul_peak_gflops": peak / 1e9,
        "share_of_peak": flops / peak,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
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
    cases = [
        {"size": s, "precision": p, "compiled": given.compile, "stretch": stretch}
        for s in given.sizes
        for p in given.precision
        for stretch in (1, 4)
    ]
    found = []
    for case in cases:
        done = subprocess.run(
            [sys.executable, __file__, "--one", json.dumps(case)],
            capture_output=True,
            encoding="utf-8",
        )
        if done.returncode:
            sys.exit(done.stderr)
        row = json.loads(done.stdout.splitlines()[-1])
        found.append(row)
        print(
            f"{row['size']:<6} {row['precision']} L {row['length']:<4} "
            f"{row['tokens_per_s']:>8,.0f} tokens/s  {row['gflops']:>5,.0f} of "
            f"{row['matmul_peak_gflops']:,.0f} GFLOP/s = {row['share_of_peak']:.0%}  "
            f"{row['peak_memory_mib']:,.0f} MiB",
            flush=True,
        )
    write_json(Path(given.out), stamped({"command": sys.argv, "rows": found}, "cpu", "as stated"))


if __name__ == "__main__":
    main()
