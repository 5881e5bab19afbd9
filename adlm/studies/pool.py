"""Runs of a study in processes of their own, several at a time."""

from __future__ import annotations

import heapq
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import get_type_hints

from adlm import memory
from adlm.config import from_dict, to_dict
from adlm.errors import UserError
from adlm.progress import console, duration
from adlm.system import ask_to_leave, hangup, own_group, stops
from adlm.visible import visible


@dataclass(frozen=True)
class Job:
    """One run: `work(folder, *given)` of a module, which goes on by itself where it was stopped."""

    label: str
    folder: Path
    module: str
    given: list[object]  # dataclass objects and plain values, of the types that `work` names
    seconds: float = 0.0  # that it is expected to take; 0 = unknown


class Course:
    """How long the jobs will still take: as expected, corrected by how long others took.

    The first word is the expectation alone, from steps measured beforehand.
    """

    def __init__(
        self, jobs: list[Job], workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.jobs, self.workers, self.clock = jobs, workers, clock
        self.began: dict[Path, float] = {}
        self.took: dict[Path, float] = {}

    def start(self, job: Job) -> None:
        self.began[job.folder] = self.clock()

    def end(self, job: Job) -> None:
        self.took[job.folder] = self.clock() - self.began[job.folder]

    def left(self) -> float:
        """Seconds until the last job is done."""
        over = [j for j in self.jobs if j.folder in self.took]
        expected = sum(j.seconds for j in over)
        slower = sum(self.took[j.folder] for j in over) / expected if expected else 1.0
        now, rest = self.clock(), []
        for job in self.jobs:
            if job.folder not in self.took:
                spent = now - self.began.get(job.folder, now)
                rest.append(max(0.0, slower * job.seconds - spent))
        return makespan(rest, self.workers)


def makespan(works: Iterable[float], workers: int) -> float:
    """Return when the last of some jobs ends that begin in this order, `workers` at a time.

    Example:
        >>> makespan([3.0, 2.0, 2.0], workers=2)
        4.0
    """
    ends = [0.0] * workers
    for work in works:
        heapq.heapreplace(ends, ends[0] + work)
    return max(ends)


def shares(workers: int, threads: int) -> int:
    """Threads of each run; 0 = its share of the cores."""
    if workers < 1:
        raise UserError(f"--workers must be at least 1, found {workers}")
    if threads < 0:
        raise UserError(f"--threads must be 0 (a share of the cores) or more, found {threads}")
    return threads or max(1, (os.cpu_count() or 1) // workers)


def foretell(jobs: list[Job], workers: int) -> None:
    """Say beforehand how long it will take."""
    minutes = max(1, round(Course(jobs, workers).left() / 60))
    console.print(f"about {minutes} minutes; stop at any time, the same command goes on")


def work(
    jobs: list[Job], workers: int, threads: int, look: Callable[[], None] | None = None
) -> None:
    """Do all jobs, `workers` at a time; raise UserError where one fails.

    `look` is called every second; without it each finished run is a line, with the time left.
    """
    began = time.monotonic()
    course = Course(jobs, workers)
    leaving.clear()
    here = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, stop_children) for n in [*stops(), *hangup()]} if here else {}
    executor = ThreadPoolExecutor(workers)
    pending = [executor.submit(launch, job, threads, course) for job in jobs]
    try:
        for job, future in zip(jobs, pending, strict=True):
            while look and not wait([future], timeout=1.0).done:
                look()
            if code := future.result():
                raise UserError(why(job, code))
            if not look:
                left = course.left()
                rest = f"; about {duration(left)} left" if left else ""
                console.print(
                    f"{time.monotonic() - began:6.0f} s  {job.label}{rest}", soft_wrap=True
                )
    finally:  # also on Ctrl-C and SIGTERM: no further run starts, those under way save and leave
        executor.shutdown(wait=True, cancel_futures=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def serve() -> None:
    """What the process of a run does; a user's error is the last line of its log."""
    module, folder, given = sys.argv[1:]
    memory.keep()
    try:
        function = importlib.import_module(module).work
        sys.exit(function(Path(folder), *typed_arguments(function, json.loads(given))))
    except UserError as error:
        print(visible(f"adlm: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)


def typed_arguments(function: Callable[..., int], values: list[object]) -> list[object]:
    """Return plain JSON values as the types that a function's parameters after the folder have."""
    hints = get_type_hints(function)
    kinds: list[type] = [hints[name] for name in list(inspect.signature(function).parameters)[1:]]
    pairs = zip(values, kinds, strict=True)
    return [from_dict(v, kind) if is_dataclass(kind) else v for v, kind in pairs]


def why(job: Job, code: int) -> str:
    """Say why a run did not end well: in its own words where it left some."""
    log = log_file(job.folder)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if lines and lines[-1].startswith("adlm: "):
        return f"{job.label}: {lines[-1].removeprefix('adlm: ')}"
    return f"the run {job.folder} stopped with code {code}; see {log}"


def log_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def launch(job: Job, threads: int, course: Course) -> int:
    """One run in a process of its own, which ends when this one is told to.

    It is in a process group of its own: Ctrl-C in a terminal reaches it once, through this process.
    """
    if leaving.is_set():
        return 128 + signal.SIGTERM
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    plain = json.dumps([to_dict(g) if is_dataclass(g) else g for g in job.given])
    code = "from adlm.studies.pool import serve; serve()"
    words = [sys.executable, "-c", code, job.module, str(job.folder), plain]
    with log_file(job.folder).open("a", encoding="utf-8") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, **own_group())
        children.add(process)
        course.start(job)
        if leaving.is_set():  # told to while it started
            ask_to_leave(process)
        try:
            return process.wait()
        finally:
            children.discard(process)
            course.end(job)


children: set[subprocess.Popen[bytes]] = set()
leaving = threading.Event()


def tell_children() -> None:
    """Have the runs under way save and leave; no further one starts."""
    leaving.set()
    for child in list(children):
        ask_to_leave(child)


def stop_children(number: int, frame: object) -> None:
    """A signal goes on to the runs, which save and leave; then this process leaves too."""
    tell_children()
    if number == signal.SIGINT:
        raise KeyboardInterrupt("what was done is saved, and the same command goes on")
    sys.exit(128 + number)
