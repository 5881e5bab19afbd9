"""A command of adlm in a forked child: torch is imported once, so that a case costs milliseconds.

The child is a process like any other: it can be killed, starved and watched. It has a session of
its own, a folder to work in, its own cache, no terminal, and a limit of memory.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

import adlm
from adlm import cli, options

LIMIT = 30.0  # seconds that a case may take
MEMORY = 12 << 30  # bytes of address space
GRACE = 30.0  # seconds to leave after Ctrl-C
CRASH = 70  # the child's exit code after a traceback


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int  # minus the signal's number where one ended it
    out: str
    err: str
    seconds: float
    parsed: bool  # all options were read and checked: the command itself began
    late: bool  # it had to be stopped

    @property
    def sentence(self) -> str:
        """The last line of what it said, without the program's name."""
        lines = self.err.strip().splitlines()
        return lines[-1].removeprefix("adlm: ") if lines and lines[-1].startswith("adlm: ") else ""


@dataclass
class Child:
    """A child that is running."""

    pid: int
    began: float
    logs: Path
    parsed: mmap.mmap
    status: int | None = field(default=None)

    def poll(self) -> bool:
        """Has it ended?"""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def signal(self, number: int, group: bool = False) -> None:
        if not self.poll():
            (os.killpg if group else os.kill)(self.pid, number)

    def wait(self, limit: float = LIMIT) -> Ended:
        """Wait for its end; after `limit` seconds it is interrupted, then killed."""
        until, late = self.began + limit, False
        while not self.poll() and time.monotonic() < until:
            time.sleep(0.002)
        for number in (signal.SIGINT, signal.SIGKILL):
            if not self.poll():
                late = True
                self.signal(number, group=True)
                until = time.monotonic() + GRACE
                while not self.poll() and time.monotonic() < until:
                    time.sleep(0.01)
        said = [(self.logs / name).read_text(errors="replace") for name in ("out", "err")]
        code = os.waitstatus_to_exitcode(self.status or 0)
        return Ended(code, *said, time.monotonic() - self.began, bool(self.parsed[0]), late)


def warm() -> None:
    """Import everything beforehand, in one thread: a forked process has no other."""
    torch.set_num_threads(1)
    wanted = [m.name for m in pkgutil.walk_packages(adlm.__path__, "adlm.")]
    wanted += ["torch._dynamo", "pyarrow.parquet", "matplotlib.pyplot", "scipy.stats"]
    for name in wanted:
        if name != "adlm.__main__" and "hub.plain" not in name:
            with suppress(ImportError):
                importlib.import_module(name)


def start(
    words: list[str],
    folder: Path,
    logs: Path,
    env: Mapping[str, str] = {},
    before: Callable[[], object] = lambda: None,
    work: Callable[[], int] | None = None,
) -> Child:
    """Begin a command in a folder.

    `before` is called in the child, and `work`, where it is given, instead of the command.
    """
    logs.mkdir(parents=True, exist_ok=True)
    parsed = mmap.mmap(-1, 1)
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return Child(pid, began, logs, parsed)
    code = CRASH
    try:
        enter(folder, logs, env)
        watch(parsed)
        before()
        code = work() if work else cli.main(words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or CRASH
        os._exit(code)
    raise AssertionError


def enter(folder: Path, logs: Path, env: Mapping[str, str]) -> None:
    """Be a process of its own: session, folder, streams, environment, limits."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(logs / name, flags, 0o644), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, encoding="utf-8"),  # noqa: SIM115
        open(1, "w", encoding="utf-8"),  # noqa: SIM115
        open(2, "w", encoding="utf-8", buffering=1),  # noqa: SIM115
    )
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def watch(parsed: mmap.mmap) -> None:
    """Note when all options are read and checked."""
    plain = options.Command.arguments

    def arguments(self: options.Command, given: Mapping[str, object]) -> dict[str, object]:
        made = plain(self, given)
        parsed[0] = 1
        return made

    options.Command.arguments = arguments  # type: ignore[method-assign]
