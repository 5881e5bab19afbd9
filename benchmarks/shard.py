"""Sharded training against one process: losses, resuming elsewhere, a killed process, memory.

    python benchmarks/shard.py [--steps 50] [--home DIR] [--out results/bench-shard.json]

Real processes that talk by gloo, AdamW, fp32, ADLM on the default corpus. Losses (size pico) are
those of every step and of two validations; a difference is the largest one, as a share, and that
of the gradients' norm (a sum in fp32 over all weights) stands beside. Memory (size tiny) is what a
process holds of weights, gradients, moments and averaged weights: `at rest` its shards before the
update, and `peak` the most at any block's pass, with what is gathered then and gradients that are
not yet reduced. The buckets in which DDP reduces a copy of its gradients are not counted.

With --home the runs are kept, and what is done in that folder is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adlm.config import Config, from_dict, to_dict
from adlm.models import checkpoint
from adlm.recipes import recipe
from adlm.results import Stamp, write_json
from adlm.train import shard
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.train.log import read
from adlm.train.run import train
from adlm.world import finish, start

MODES = ("none", "grad", "full")
LOSSES = ("loss", "anchor_loss", "valid_nll")


def setting(size: str, mode: str, **train: Any) -> Config:
    """ADLM of a size, trained by AdamW in fp32, with averaged weights."""
    config = recipe("laptop-adlm", size)
    how = {"precision": "fp32", "device": "cpu", "batch": 8, "log_every": 1, "shard": mode}
    return replace(
        config,
        optim=replace(config.optim, name="adamw", lr=1e-3, ema=0.99),
        train=replace(config.train, **(how | {"eval_rows": 128} | train)),
    )


def launch(processes: int, task: str, given: Any, out: Path, *more: str) -> subprocess.Popen:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    words += [*more, __file__, "--task", task, "--given", json.dumps(given), "--out", str(out)]
    return subprocess.Popen([sys.executable, *words], env={**os.environ, "OMP_NUM_THREADS": "1"})


def done(processes: int, task: str, given: Any, out: Path) -> bool:
    """Is a task done already, in a folder that is kept?"""
    if task == "memory":
        return (out / f"memory-{processes}.json").is_file()
    last = {name: checkpoint.steps(out / name)[-1:] for name in given}
    steps = {name: values["train"]["steps"] for name, values in given.items()}
    share = 0.5 if task == "half" else 1.0
    return all(
        path and int(path[0].name.removeprefix("step-")) >= share * steps[name]
        for name, path in last.items()
    )


def run(processes: int, task: str, given: Any, out: Path) -> None:
    """Do a task by so many processes, unless it is done."""
    if done(processes, task, given, out):
        return
    if launch(processes, task, given, out).wait():
        raise SystemExit(f"{task} failed on {processes} processes")


def trained(given: dict[str, Any], out: Path) -> None:
    """In each process: train every configuration in a folder of its name, or go on there."""
    for name, values in given.items():
        train(from_dict(values), out / name, resume=True)


def half_way(given: dict[str, Any], out: Path) -> None:
    """In each process: the same to the middle, as a training that is stopped there."""
    for name, values in given.items():
        if checkpoint.steps(out / name):
            continue
        workload = LanguageModelling(from_dict(values), "cpu")
        engine, middle = Engine(workload, out / name, start("cpu")), workload.ends[-1] // 2

        def told(engine: Engine = engine, middle: int = middle) -> int:
            return int(engine.step >= middle)

        if engine.world.main:
            write_json(out / name / "config.json", values)
        engine.world.wait()
        engine.fit(type("Stop", (), {"raised": property(lambda self, told=told: told())})())


def size_of(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of this process's rows, each memory counted once."""
    held = {shard.local(t).untyped_storage() for t in tensors if t is not None}
    return sum({s.data_ptr(): s.nbytes() for s in held if s.nbytes()}.values())


def gathered(module: nn.Module) -> int:
    """Bytes of weights that are whole here now, and of gradients that are not reduced yet."""
    total = 0
    for part in shard.parts(module):
        group = part._get_fsdp_state()._fsdp_param_group
        for p in group.fsdp_params if group else ():
            whole = getattr(p, "_unsharded_param", None)
            if whole is not None:
                total += size_of([whole, whole.grad, p.unsharded_accumulated_grad])
    return total


def held(engine: Engine) -> dict[str, int]:
    """Bytes that this process has between the backward pass and the update."""
    weights = list(engine.model.parameters())
    states = [s for o in engine.optim.all.values() for s in o.state.values()]
    return {
        "weights": size_of(weights),
        "gradients": size_of(p.grad for p in weights),
        "moments": size_of(v for s in states for v in s.values() if v.ndim),
        "ema": size_of(engine.ema.average),
    }


def measured(given: dict[str, Any], out: Path) -> None:
    """In each process: two steps of every configuration; the first process writes its bytes."""
    found = {}
    for name, values in given.items():
        world = start("cpu")
        engine = Engine(LanguageModelling(from_dict(values), "cpu"), out, world)
        engine.advance()  # makes the moments
        most = [0]

        def look(engine: Engine = engine, most: list[int] = most) -> None:
            most[0] = max(most[0], sum(held(engine).values()) + gathered(engine.scorer))

        def watch(module: nn.Module, args: Any, out: Tensor, look: Any = look) -> None:
            out.register_hook(lambda _: look())

        for block in shard.blocks(engine.model):
            block.register_forward_pre_hook(lambda *_, look=look: look())
            block.register_forward_hook(watch)
        engine.accumulate(engine.workload.portion(1, world))
        rest = held(engine)
        look()
        found[name] = {**rest, "at_rest": sum(rest.values()), "peak": most[0]}
        if world.main:
            write_json(out / f"memory-{world.size}.json", found)


def difference(a: Path, b: Path, after: int = 0, keys: tuple[str, ...] = LOSSES) -> float:
    """The largest difference between the metrics of two runs, as a share."""
    left, right = ([r for r in read(x / "metrics.jsonl") if r["step"] > after] for x in (a, b))
    assert len(left) == len(right) > 0, (a, b)
    pairs = [(x[k], y[k]) for x, y in zip(left, right, strict=True) for k in keys if k in x]
    return max(abs(x - y) / abs(x) for x, y in pairs)


def killed(steps: int, home: Path) -> float:
    """Kill one of four processes with SIGKILL; torchrun starts all again. Against undisturbed."""
    config, run_folder = losses(steps)["full"], home / "killed"
    if read(run_folder / "metrics.jsonl")[-1:] and checkpoint.load(run_folder).step == steps:
        return difference(home / "4-full", run_folder, keys=(*LOSSES, "grad_norm"))
    process = launch(4, "train", {"killed": to_dict(config)}, home, "--max-restarts", "1")
    while not checkpoint.steps(run_folder):
        time.sleep(0.02)
        assert process.poll() is None
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    os.kill(int(listed.stdout.split()[2]), signal.SIGKILL)
    assert process.wait() == 0
    return difference(home / "4-full", run_folder, keys=(*LOSSES, "grad_norm"))


def losses(steps: int) -> dict[str, Config]:
    """The trainings that are compared, by what is sharded; saved and validated half-way too."""
    half = steps // 2
    return {m: setting("pico", m, steps=steps, eval_every=half, save_every=half) for m in MODES}


def measure(steps: int, home: Path) -> dict[str, Any]:
    """All figures."""
    half, every, whole = steps // 2, {}, losses(steps)
    for processes in (1, 2, 4):
        run(processes, "train", {f"{processes}-{m}": to_dict(whole[m]) for m in MODES}, home)
        run(processes, "memory", {m: to_dict(setting("tiny", m)) for m in MODES}, home)
    for m in ("grad", "full"):
        every |= {f"{m}-4-to-{n}": to_dict(whole[m]) for n in (2, 1)}
    run(4, "half", every, home)
    for n in (2, 1):
        run(n, "train", {f"{m}-4-to-{n}": to_dict(whole[m]) for m in ("grad", "full")}, home)
    names = [(n, m) for n in (1, 2, 4) for m in MODES]
    memory = {
        n: json.loads((home / f"memory-{n}.json").read_text(encoding="utf-8")) for n in (1, 2, 4)
    }
    return {
        "steps": steps,
        "cases": [
            {
                "processes": n,
                "shard": m,
                "difference": difference(home / "1-none", home / f"{n}-{m}"),
                "norm_difference": difference(
                    home / "1-none", home / f"{n}-{m}", keys=("grad_norm",)
                ),
                "valid_nll": read(home / f"{n}-{m}" / "metrics.jsonl")[-1]["valid_nll"],
                **memory[n][m],
            }
            for n, m in names
        ],
        "resumed": {
            f"{m}, 4 to {n}": difference(home / "1-none", home / f"{m}-4-to-{n}", half)
            for m in ("grad", "full")
            for n in (2, 1)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("results/bench-shard.json"))
    parser.add_argument("--home", type=Path)
    parser.add_argument("--task", choices=("train", "half", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--given", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.task:
        world = start("cpu")
        tasks = {"train": trained, "half": half_way, "memory": measured}
        tasks[asked.task](json.loads(asked.given), asked.out)
        finish(world)
        return
    with tempfile.TemporaryDirectory() as new:
        home = asked.home or Path(new)
        found = {"command": "bench-shard", **vars(Stamp.now("cpu", "fp32"))}
        found |= measure(asked.steps, home)
        write_json(asked.out, found | {"killed": killed(asked.steps, home)})


if __name__ == "__main__":
    main()
