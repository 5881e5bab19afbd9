"""`adlm eval humaneval`."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from adlm import device as devices
from adlm.api import Model
from adlm.config import check, to_dict
from adlm.errors import UserError
from adlm.eval import humaneval, sandbox
from adlm.eval.humaneval import Task
from adlm.eval.sandbox import Limits
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.progress import Bar
from adlm.results import stamped, write_json
from adlm.samplers.generate import Settings, samplers_for


@dataclass(frozen=True)
class Place:
    """Where the tasks are.

    Attributes:
        dir: Folder with humaneval/HumanEval.jsonl.gz; ADLM_DATA by default, and then the hub.
    """

    dir: str | None = None


def start(
    checkpoint_or_run: str,
    mode: Literal["complete", "infill"] = "complete",
    settings: Settings = Settings(),
    file: str | None = None,
    data: Place = Place(),
    limit: int = 0,
    tokens: int = 256,
    allow_code_execution: bool = False,
    isolation: Literal["full", "limits"] = "full",
    timeout: float = 10.0,
    memory_mb: int = 512,
    workers: int = 1,
    out: str | None = None,
) -> None:
    """Write HumanEval programs, and run their tests if that is allowed: pass@1, 10 and 100.

    Programs that a model wrote are run only after --allow-code-execution, each in a process of its
    own with limits and without network. Stopped half-way, the same command goes on.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        mode: complete writes the function after its signature; infill one masked line of the known
            solution, with diffusion only.
        settings: How programs are written; --n of them for each task.
        file: The tasks as jsonl or jsonl.gz.
        data: Where the tasks are.
        limit: Only the first so many tasks; 0 = all.
        tokens: Most tokens of a completion.
        allow_code_execution: Run the programs.
        isolation: full needs Linux namespaces and leaves a program no network and no files but its
            own; limits leaves it both, and only bounds time, memory and sizes.
        timeout: Seconds of a program.
        memory_mb: Megabytes of a program.
        workers: Programs that run at once.
        out: Result file; eval/humaneval.json (humaneval-infill.json) of the run by default. The
            completions are in a jsonl file beside it.
    """
    check(limit >= 0, "--limit", limit, "0 (all tasks) or more")
    check(tokens >= 1, "--tokens", tokens, "at least 1")
    check(0 < timeout < 86400, "--timeout", timeout, "above 0 and below 86400 seconds")
    check(64 <= memory_mb <= 2**20, "--memory_mb", memory_mb, "64 to 2^20")
    check(workers >= 1, "--workers", workers, "at least 1")
    check(not (out or "").endswith(".jsonl"), "--out", out, "a .json file (completions are .jsonl)")
    every = humaneval.open_tasks(file, data.dir)
    tasks = every[: limit or None]
    saved = checkpoint.load(checkpoint_or_run)
    if mode == "infill" and samplers_for(saved.config) == ["causal"]:
        raise UserError(
            f"a checkpoint of {saved.config.objective} writes from left to right and cannot "
            "infill; --mode complete is for it"
        )
    limits = Limits(seconds=timeout, memory_mb=memory_mb)
    if allow_code_execution:
        probe(limits, isolation)
    gpu = devices.pick(settings.device)
    how = devices.precision(settings.precision, gpu)
    same = {  # what decides on the completions
        "checkpoint_hash": saved.hash,
        "tokenizer_hash": saved.vocab.hash,
        "data_hash": humaneval.hash_of(every),
        "mode": mode,
        "tokens": tokens,
        "sampling": {**to_dict(replace(settings, at_once=1, device=gpu)), "precision": how},
    }
    name = "humaneval.json" if mode == "complete" else "humaneval-infill.json"
    path = Path(out) if out else saved.run / "eval" / name
    model = Model(load_model(saved, gpu), saved.vocab, saved.config, gpu, saved.lengths())
    written = write(model, tasks, mode, settings, tokens, path.with_suffix(".jsonl"), same)
    result: dict[str, Any] = {
        "command": "eval humaneval",
        "checkpoint": saved.path.name,
        **same,
        "config": to_dict(saved.config),
        "seed": settings.seed,
        "n": settings.n,
        "tasks": len(tasks),
        "context": saved.config.data.length,
        "tasks_cut": sum(r["cut_tokens"] > 0 for r in written),
        "tokens_cut": sum(r["cut_tokens"] for r in written),
        "tasks_without_room": sum(not r["completions"] for r in written),
        "completions": path.with_suffix(".jsonl").name,
        "executed": allow_code_execution,
    }
    programs = [
        [humaneval.program(task, mode, settings.seed, text) for text in record["completions"]]
        for task, record in zip(tasks, written, strict=True)
    ]
    python = sum(humaneval.parses(program) for row in programs for program in row)
    result["parses"] = python / (len(tasks) * settings.n)
    if allow_code_execution:
        rows = judge(programs, settings.n, limits, isolation, workers)
        result |= humaneval.summary([[verdict for verdict, _ in row] for row in rows])
        result["sandbox"] = sandbox.describe(isolation, limits)
        result["outcomes"] = {t.task_id: row for t, row in zip(tasks, rows, strict=True)}
    write_json(path, stamped(result, gpu, how))
    show(result, path)


def probe(limits: Limits, isolation: str) -> None:
    """Can programs be run here? Better known before hours of writing them."""
    if not hasattr(os, "waitid"):
        raise UserError(
            "programs cannot be run on this system: it takes Linux, or macOS with Python 3.13"
        )
    tried = sandbox.run("pass", limits, isolation)
    if tried.verdict != "passed":
        why = tried.detail or tried.output.strip() or tried.verdict
        other = (
            "; --isolation limits runs them with network and files open: only where nothing can be "
            "lost, such as a container without network"
        )
        raise UserError(
            f"programs cannot be run with --isolation {isolation} here ({why})"
            + (other if isolation == "full" else "")
        )


def write(
    model: Model,
    tasks: list[Task],
    mode: str,
    settings: Settings,
    tokens: int,
    path: Path,
    same: dict[str, Any],
) -> list[dict[str, Any]]:
    """The completions of each task; those of an earlier run with the same settings stay."""
    known = humaneval.known(path, same)
    todo = [task for task in tasks if task.task_id not in known]
    if known:
        print(f"{len(tasks) - len(todo)} of {len(tasks)} tasks are in {path} already")
    with Bar("writing", len(todo), "tasks") as bar:
        for i, task in enumerate(todo, 1):
            record = complete(model, task, mode, settings, tokens)
            if i == 1:  # not before one was written: bad settings lose nothing
                humaneval.begin(path, same, known)
            known[task.task_id] = record
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            bar.update(i)
    return [known[task.task_id] for task in tasks]


def complete(
    model: Model, task: Task, mode: str, settings: Settings, tokens: int
) -> dict[str, Any]:
    """The completions of one task; none where its hole has no room in the context."""
    context = model.config.data.length
    given = humaneval.form(task, mode, settings.seed, model.vocab, context, tokens)
    if given is None:
        return {"task_id": task.task_id, "cut_tokens": 0, "completions": []}
    own = replace(settings, seed=humaneval.seed_of(settings.seed, task))
    made = model.write(given.template, own)
    return {
        "task_id": task.task_id,
        "cut_tokens": given.cut,
        "completions": [humaneval.completion(r, given, mode, model.vocab) for r in made.tokens],
        "nfe": float(made.nfe.mean()),
        "seconds": made.seconds,
    }


def judge(
    programs: list[list[str]], n: int, limits: Limits, isolation: str, workers: int
) -> list[list[tuple[str, str]]]:
    """(verdict, detail) of each program; what is no Python is not run."""

    def one(program: str) -> tuple[str, str]:
        if not humaneval.parses(program):
            return "no_syntax", ""
        done = sandbox.run(program, limits, isolation)
        if done.verdict == "unavailable":
            raise UserError(f"a program could not be run: {done.detail}")
        return done.verdict, done.detail

    flat = [program for row in programs for program in row]
    outcomes = []
    with ThreadPoolExecutor(workers) as pool, Bar("running", len(flat), "programs") as bar:
        try:
            for outcome in pool.map(one, flat):
                outcomes.append(outcome)
                bar.update(len(outcomes))
        finally:
            pool.shutdown(cancel_futures=True)
    each = iter(outcomes)
    return [[next(each) for _ in row] or [("no_room", "")] * n for row in programs]


def show(result: dict[str, Any], path: Path) -> None:
    """What was found, what was cut, and which walls there were."""
    print(f"{result['tasks']} tasks, {result['n']} program(s) each: {result['parses']:.1%} parse")
    if result["tasks_cut"]:
        print(
            f"{result['tasks_cut']} tasks did not fit the context of {result['context']} tokens: "
            f"{result['tokens_cut']:,} tokens far from the completion were cut"
        )
    if result["tasks_without_room"]:
        print(f"{result['tasks_without_room']} holes did not fit at all and count as failed")
    for k, value in result.get("pass_at", {}).items():
        error = "" if value["stderr"] is None else f" ± {value['stderr']:.4f}"
        print(f"pass@{k} {value['mean']:.4f}{error}")
    if result["executed"]:
        walls = result["sandbox"]
        print(", ".join(f"{name} {share:.1%}" for name, share in result["shares"].items()))
        print(f"isolation {walls['isolation']}: network {walls['network']}, files {walls['files']}")
    print(f"written to {path}, the completions to {result['completions']} beside it")
    if not result["executed"]:
        print("the programs were not run: the same command with --allow-code-execution runs them")
