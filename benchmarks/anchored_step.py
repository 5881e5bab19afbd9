"""ADLM with its bridge folded, against the paper-literal path and a plain MDLM of equal depth.

    python benchmarks/anchored_step.py [--rows 48] [--precision bf16]

V 50258, d 768, 12 + 6 blocks, L 128; a training step (forward and backward of the whole loss) and
an inference forward (log-probabilities at the masked half), each case in a process of its own, in
one run and one precision. The literal path builds the anchor's and the denoiser's logits at every
position, as the published code does. Tokens follow Zipf's law, so that anchors are about as
frequent as in text.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models

from adlm import device as devices
from adlm.config import AnchorConfig, Config, DataConfig, ModelConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.models.anchored import Anchored
from adlm.models.sizes import build
from adlm.objectives.anchored import AnchoredDiffusion
from adlm.objectives.base import make
from adlm.objectives.subs import zero_masking
from adlm.results import stamped, write_json
from adlm.types import Batch

V, LENGTH = 50258, 128
MODELS = ("folded", "literal", "plain 18 blocks")


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


def measure(kind: str, phase: str, rows: int, precision: str, calls: int) -> dict:
    """Seconds and peak memory of one case."""
    config = setting(kind)
    vocab = words(V)
    torch.manual_seed(0)
    model = build(config, V).train(phase == "training step")
    objective = make(config, vocab)
    batch = tokens(rows)
    noise = objective.noise(rows, LENGTH, torch.Generator().manual_seed(1))
    assert noise is not None
    base = objective.base if isinstance(objective, AnchoredDiffusion) else objective
    view = base.view(batch, noise)

    def literal_loss() -> torch.Tensor:
        assert isinstance(model, Anchored)
        states = model.states(view.z, literal=True)
        anchor_logits = model.anchor_head(states.anchor).float()  # (B, L, V)
        logits = model.head(states.denoiser).float()  # (B, L, V)
        chosen = objective.supervised(batch, view, model)
        weight = view.weight[:, None]
        nll = F.cross_entropy(logits.transpose(1, 2), batch.x, reduction="none")
        anchor = F.cross_entropy(anchor_logits.transpose(1, 2), batch.x, reduction="none")
        return (weight * (nll * view.wanted + 3e-3 * anchor * chosen)).sum()

    def train() -> None:
        with devices.autocast(precision, "cpu"):
            literal = kind == "literal"
            total = literal_loss() if literal else objective.score(model, batch, noise).total
        (total / batch.x.numel()).backward()
        model.zero_grad(set_to_none=True)

    @torch.no_grad()
    def infer() -> None:
        with devices.autocast(precision, "cpu"):
            if kind == "literal":
                assert isinstance(model, Anchored)
                logits = model.head(model.states(view.z, literal=True).denoiser)
            else:
                logits = model.head(model.hidden(view.z)[view.wanted])
        zero_masking(logits, V - 1)

    return {
        "model": kind,
        "phase": phase,
        "seconds": fastest(train if phase == "training step" else infer, calls),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows": rows,
        "anchor_share": objective.anchors(batch.x, batch.valid).float().mean().item()
        if isinstance(objective, AnchoredDiffusion)
        else None,
    }


def fastest(work: Callable[[], None], calls: int) -> float:
    """Seconds of the fastest of a few calls: what else the machine does only adds."""
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--calls", type=int, default=3, help="of each case; the fastest counts")
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--out", default="results/bench-anchored-step.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a single case, in a process of its own
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(**json.loads(given.one))))
        return
    found: dict[str, dict[str, dict]] = {}
    for phase in ("inference", "training step"):
        for kind in MODELS:
            case = {
                "kind": kind,
                "phase": phase,
                "rows": given.rows,
                "precision": given.precision,
                "calls": given.calls,
            }
            words = [sys.executable, __file__, "--one", json.dumps(case)]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            row = json.loads(done.stdout.splitlines()[-1])
            found.setdefault(phase, {})[kind] = row
            memory = f"{row['peak_memory_mib']:8,.0f} MiB"
            print(f"{phase:<14} {kind:<16} {row['seconds']:7.2f} s  {memory}", flush=True)
        cases = found[phase]
        folded, literal, plain = (cases[m] for m in MODELS)
        print(
            f"{phase}: {literal['seconds'] / folded['seconds']:.2f}x as fast as literal, "
            f"{folded['peak_memory_mib'] / literal['peak_memory_mib']:.2f} of its memory, "
            f"{folded['seconds'] / plain['seconds']:.2f}x the time of a plain 18-block MDLM",
            flush=True,
        )
    result = {"command": sys.argv, "vocabulary": V, "length": LENGTH, "cases": found}
    write_json(Path(given.out), stamped(result, "cpu", given.precision))


if __name__ == "__main__":
    main()
