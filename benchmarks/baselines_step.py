"""A training step of the baselines against MDLM's: time, and memory that must not grow with L V.

    python benchmarks/baselines_step.py [--rows 32] [--rounds 5] [--size tiny]

d 768, 12 blocks, V 50258, L 128 (`--size` takes another size of the dial); forward and backward of
the whole loss in one run and one precision. Each objective has a process of its own; they take
turns, and the ratios are medians over rounds, so that what else the machine does falls on all
alike. Peak memory is taken in further processes, one at a time, with and without twice the rows:
what a token more takes is compared with 4 V bytes, one row of logits in fp32. Block diffusion shows
a row twice, so a step of at most 2.2 times MDLM's is wanted of it.
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
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models

from adlm import device as devices
from adlm import memory, registry
from adlm.config import Config, DataConfig, ModelConfig, ProcessConfig
from adlm.data.vocab import Vocab, make_vocab
from adlm.models.build import build_model
from adlm.models.size import SIZES
from adlm.objectives.base import make_objective
from adlm.results import Stamp, write_json
from adlm.system import peak_memory_mib
from adlm.types import Batch

V, LENGTH, TIME = 50258, 128, 128
MOST = 2.2  # times MDLM's step that block diffusion may take
# what is freed goes back at once, so that the peak is what was alive together
TIDY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
PLAIN = "mdlm"
RECIPES = {"udlm": "lm1b-udlm", "gidd": "owt-gidd", "sedd": "lm1b-sedd", "d3pm": "lm1b-d3pm"}


def cases() -> list[str]:
    """The objectives that are compared: those of the list that this version has."""
    known = registry.names("objective")
    return [PLAIN, "bd3lm", *(name for name in RECIPES if name in known)]


def setting(objective: str, size: str) -> Config:
    """The objective's published process on MDLM's trunk."""
    dial = SIZES[size]
    model = ModelConfig(width=dial.width, blocks=dial.blocks, heads=dial.heads, time=TIME)
    process = ProcessConfig(masking="bernoulli")
    if objective in RECIPES:
        process = registry.lookup("recipe", RECIPES[objective])().process
    return Config(objective, DataConfig(length=LENGTH), model, process)


def words(size: int) -> Vocab:
    """A vocabulary of that size; EOS and the mask are its last two."""
    return make_vocab(Tokenizer(models.WordLevel({f"w{i}": i for i in range(size - 2)})))


def step(objective: str, size: str, rows: int, precision: str) -> Callable[[], None]:
    """One case, ready to be called again and again."""
    config = setting(objective, size)
    torch.manual_seed(0)
    model = build_model(config, V).train()
    made = make_objective(config, words(V))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, V - 2, (rows, LENGTH), generator=generator)
    batch = Batch(x, torch.ones_like(x, dtype=torch.bool))
    noise = made.noise(rows, LENGTH, generator)

    def train() -> None:
        with devices.autocast(precision, "cpu"):
            bound = made.score(model, batch, noise).bound
        (bound / x.numel()).backward()
        model.zero_grad(set_to_none=True)

    return train


def serve(tidy: bool = False, **case: Any) -> None:
    """A process of one case: a step for each line of the input; seconds and memory come out."""
    if not tidy:
        memory.keep()  # as the program does
    work = step(**case)
    for _ in sys.stdin:
        began = time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        peak = peak_memory_mib()
        print(json.dumps([seconds, peak]), flush=True)


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

    def call(self) -> tuple[float, float]:
        """Seconds of one step, and the peak memory so far in MiB."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a case ended with code {self.process.wait()}")
        seconds, peak = json.loads(line)
        return seconds, peak

    def end(self) -> None:
        self.process.communicate()


def peak(objective: str, rows: int, **same: Any) -> float:
    """MiB of a step in a fresh process."""
    alone = Case(TIDY, objective=objective, rows=rows, tidy=True, **same)
    alone.call()
    found = alone.call()[1]
    alone.end()
    return found


def measure(rows: int, rounds: int, size: str, precision: str) -> dict[str, Any]:
    """Seconds of every step, peak memory at two numbers of rows, and what they say."""
    names, same = cases(), {"size": size, "precision": precision}
    result: dict[str, Any] = {name: {"seconds": []} for name in names}
    for name in names:
        low, high = peak(name, rows, **same), peak(name, 2 * rows, **same)
        a_token = (high - low) * 2**20 / (rows * LENGTH)  # bytes
        result[name] |= {
            "peak_memory_mib": [low, high],
            "bytes_a_token": a_token,
            "of_a_row_of_logits": a_token / (4 * V),
        }
        print(f"{name}: {low:,.0f} MiB, {high:,.0f} with twice the rows", flush=True)
    running = {name: Case({}, objective=name, rows=rows, **same) for name in names}
    for case in running.values():
        case.call()  # the first call sets things up
    for number in range(rounds):
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            result[name]["seconds"].append(running[name].call()[0])
        latest = ", ".join(f"{n} {result[n]['seconds'][-1]:.2f} s" for n in names)
        print(f"round {number + 1}: {latest}", flush=True)
    for case in running.values():
        case.end()
    plain = result[PLAIN]["seconds"]
    for name in names:
        pairs = zip(result[name]["seconds"], plain, strict=True)
        result[name]["times_mdlm"] = statistics.median(a / b for a, b in pairs)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="small", choices=list(SIZES))
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--out", default="results/bench-baselines-step.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a single case, in a process of its own
    given = parser.parse_args()
    if given.one:
        serve(**json.loads(given.one))
        return
    found = measure(given.rows, given.rounds, given.size, given.precision)
    for name, case in found.items():
        print(
            f"{name}: {case['times_mdlm']:.2f} times MDLM's step, a token more takes "
            f"{case['of_a_row_of_logits']:.2f} of a row of logits"
        )
    result = {"command": sys.argv, "vocabulary": V, "length": LENGTH, "rows": given.rows}
    result |= {"size": given.size, "wanted_of_bd3lm": MOST, "objectives": found}
    write_json(Path(given.out), {**result, **vars(Stamp.now("cpu", given.precision))})


if __name__ == "__main__":
    main()
