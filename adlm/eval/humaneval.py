"""`eval humaneval`: programs written after a prompt or into a hole, and the share that passes.

pass@k = mean over tasks of 1 - C(n - c, k) / C(n, k)        n programs, c of which pass
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from adlm import api
from adlm import device as devices
from adlm.config import check, to_dict
from adlm.errors import UserError
from adlm.eval import programs, sandbox
from adlm.eval.base import CheckpointResult
from adlm.eval.completions import Store, Writing, write
from adlm.eval.examine import examine
from adlm.eval.programs import ProgramTask
from adlm.eval.sandbox import Limits, Walls
from adlm.models.checkpoint import Checkpoint
from adlm.progress import Bar
from adlm.registry import register
from adlm.samplers.choice import samplers_for
from adlm.samplers.settings import SamplingSettings
from adlm.viz.page import Section
from adlm.viz.table import spread

VERDICTS = ("passed", "failed", "raised", "timeout", "no_syntax", "no_room")


@dataclass(frozen=True)
class TasksPlace:
    """Where the tasks are.

    Attributes:
        dir: Folder with humaneval/HumanEval.jsonl.gz; ADLM_DATA by default, and then the hub.
    """

    dir: str | None = None


@dataclass(frozen=True)
class HumanevalSettings(SamplingSettings):
    """How programs are written; --n of them for each task.

    Attributes:
        mode: complete writes the function after its signature; infill one masked line of the known
            solution, with diffusion only.
        file: The tasks as jsonl or jsonl.gz.
        data: Where the tasks are.
        limit: Only the first so many tasks; 0 = all.
        tokens: Most tokens of a completion.
        allow_code_execution: Run the programs.
        isolation: full needs bubblewrap or Linux namespaces and leaves a program no network and no
            files but its own; limits leaves it both, and only bounds time, memory and sizes.
        timeout: Seconds of a program.
        memory_mb: Megabytes of a program.
        workers: Programs that run at once.
    """

    mode: Literal["complete", "infill"] = "complete"
    file: str | None = None
    data: TasksPlace = TasksPlace()
    limit: int = 0
    tokens: int = 256
    allow_code_execution: bool = False
    isolation: Literal["full", "limits"] = "full"
    timeout: float = 10.0
    memory_mb: int = 512
    workers: int = 1

    def __post_init__(self) -> None:
        check(self.limit >= 0, "--limit", self.limit, "0 (all tasks) or more")
        check(self.tokens >= 1, "--tokens", self.tokens, "at least 1")
        below = "above 0 and below 86400 seconds"
        check(0 < self.timeout < 86400, "--timeout", self.timeout, below)
        check(64 <= self.memory_mb <= 2**20, "--memory_mb", self.memory_mb, "64 to 2^20")
        check(self.workers >= 1, "--workers", self.workers, "at least 1")
        super().__post_init__()

    @property
    def limits(self) -> Limits:
        """What a program may use."""
        return Limits(seconds=self.timeout, memory_mb=self.memory_mb)


@dataclass(frozen=True)
class PassRate:
    """pass@k with its standard error over tasks."""

    mean: float
    stderr: float | None


@register("result", "eval humaneval")
@dataclass(frozen=True, kw_only=True)
class HumanevalResult(CheckpointResult):
    """How many programs parse and, if they were run, pass."""

    command: ClassVar[str] = "eval humaneval"
    data_hash: str | None = None
    mode: str
    tokens: int | None = None
    sampling: dict[str, object] = field(default_factory=dict)
    seed: int | None = None
    n: int
    tasks: int
    context: int
    tasks_cut: int
    tokens_cut: int = 0
    tasks_without_room: int = 0
    completions: str = ""  # the file's name
    executed: bool
    parses: float
    pass_at: dict[str, PassRate] = field(default_factory=dict)  # by k; empty unless executed
    shares: dict[str, float] = field(default_factory=dict)
    sandbox: Walls | None = None
    outcomes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        rows = [["tasks", str(self.tasks)], ["programs a task", str(self.n)]]
        rows.append(["parse as Python", f"{self.parses:.1%}"])
        for k, found in self.pass_at.items():
            error = None if found.stderr is None else 100 * found.stderr
            rows.append([f"pass@{k}, per cent", f"{100 * found.mean:.2f}{spread(error)}"])
        rows += [[what, f"{share:.1%}"] for what, share in self.shares.items()]
        cut = f"{self.tasks_cut} prompts were cut to fit"
        notes = [f"The model's context is {self.context} tokens; {cut}."]
        if not self.executed:
            notes.append("The programs were not run (--allow-code-execution runs them).")
        return Section(f"HumanEval ({self.mode})", ["", ""], rows, notes)

    def text(self) -> str:
        lines = [super().text()]
        if self.tokens_cut:
            lines.append(f"{self.tokens_cut:,} tokens far from the completion were cut")
        if self.tasks_without_room:
            lines.append(f"{self.tasks_without_room} holes did not fit at all and count as failed")
        if walls := self.sandbox:
            lines.append(
                f"isolation {walls.isolation}: network {walls.network}, files {walls.files}"
            )
        return "\n".join(lines)


def measure(
    saved: Checkpoint,
    every: list[ProgramTask],
    store: Path,
    settings: HumanevalSettings = HumanevalSettings(),
) -> HumanevalResult:
    """Write programs, keep them in the jsonl file `store`, and run them if that is allowed."""
    tasks, mode = every[: settings.limit or None], settings.mode
    if mode == "infill" and samplers_for(saved.config) == ["causal"]:
        raise UserError(
            f"a checkpoint of {saved.config.objective} writes from left to right and cannot "
            "infill; --mode complete is for it"
        )
    if settings.allow_code_execution:  # better known before hours of writing
        sandbox.probe(settings.limits, settings.isolation)
    device = devices.pick(settings.device)
    precision = devices.precision(settings.precision, device)
    sampling = to_dict(replace(settings.sampling, at_once=1, device=device))
    same: dict[str, Any] = {  # what decides on the completions
        "checkpoint_hash": saved.hash,
        "tokenizer_hash": saved.vocab.hash,
        "data_hash": programs.hash_of(every),
        "mode": mode,
        "tokens": settings.tokens,
        "sampling": {**sampling, "precision": precision},
    }
    how = Writing(mode, settings.tokens, settings.sampling)
    written = write(api.load(saved.path, device), tasks, how, Store(store, same))
    sources = [
        [programs.program(task, mode, settings.seed, text) for text in record.completions]
        for task, record in zip(tasks, written, strict=True)
    ]
    python = sum(programs.parses(source) for row in sources for source in row)
    result = HumanevalResult(
        **same,
        seed=settings.seed,
        n=settings.n,
        tasks=len(tasks),
        context=saved.config.data.length,
        tasks_cut=sum(r.cut_tokens > 0 for r in written),
        tokens_cut=sum(r.cut_tokens for r in written),
        tasks_without_room=sum(not r.completions for r in written),
        completions=store.name,
        executed=settings.allow_code_execution,
        parses=python / (len(tasks) * settings.n),
    )
    result = result.of(saved).stamped(device, precision)
    if not settings.allow_code_execution:
        return result
    rows = judge(tasks, sources, settings)
    verdicts = [[verdict for verdict, _ in row] for row in rows]
    return replace(
        result,
        pass_at=pass_rates(verdicts),
        shares=shares(verdicts),
        sandbox=sandbox.describe(settings.isolation, settings.limits),
        outcomes={t.task_id: row for t, row in zip(tasks, rows, strict=True)},
    )


def judge(
    tasks: list[ProgramTask], sources: list[list[str]], settings: HumanevalSettings
) -> list[list[tuple[str, str]]]:
    """Run the programs: (verdict, detail) of each; what is no Python is not run."""

    def one(pair: tuple[ProgramTask, str]) -> tuple[str, str]:
        task, source = pair
        if not programs.parses(source):
            return "no_syntax", ""
        known = task.prompt + task.canonical_solution
        how = (settings.limits, settings.isolation)
        done = examine(source, known, task.test, task.entry_point, *how)
        if done.verdict == "unavailable":
            raise UserError(f"a program could not be run: {done.detail}")
        return done.verdict, done.detail

    pairs = [(task, s) for task, row in zip(tasks, sources, strict=True) for s in row]
    outcomes = []
    with (
        ThreadPoolExecutor(settings.workers) as pool,
        Bar("running", len(pairs), "programs") as bar,
    ):
        try:
            for outcome in pool.map(one, pairs):
                outcomes.append(outcome)
                bar.update(len(outcomes))
        finally:
            pool.shutdown(cancel_futures=True)
    each = iter(outcomes)
    return [[next(each) for _ in row] or [("no_room", "")] * settings.n for row in sources]


def pass_at(n: int, right: int, k: int) -> float:
    """The chance that of k programs drawn out of n at least one is among the right ones.

    Example:
        >>> pass_at(4, 1, 2)
        0.5
    """
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def pass_rates(verdicts: list[list[str]]) -> dict[str, PassRate]:
    """pass@1, 10 and 100, as far as there are so many programs a task."""
    n, out = len(verdicts[0]), {}
    for k in (k for k in (1, 10, 100) if k <= n):
        each = np.array([pass_at(n, row.count("passed"), k) for row in verdicts])
        error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else None
        out[str(k)] = PassRate(float(each.mean()), error)
    return out


def shares(verdicts: list[list[str]]) -> dict[str, float]:
    """Return how the programs ended."""
    every = [v for row in verdicts for v in row]
    return {name: every.count(name) / len(every) for name in VERDICTS}
