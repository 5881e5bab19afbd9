"""Runs a program that nobody has read: in a process of its own, with limits and behind walls.

    full    bubblewrap's walls where it is installed and works, else namespaces that `walls.py`
            builds: no network, no files but read-only system folders, the interpreter and a small
            /tmp in memory, no privileges, and every process ends with the first.
    limits  only the limits: the network and the user's files are open to the program.

Both limit CPU and wall-clock time, memory, file size, processes, open files and output. The program
is run by a bare interpreter (`-I -S`, no environment, a session of its own).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from adlm.errors import UserError
from adlm.eval import walls
from adlm.eval.walls import PYTHON, Limits


@dataclass(frozen=True)
class Outcome:
    """How a program ended: passed, failed (an assert), raised, timeout, or unavailable walls."""

    verdict: str
    detail: str
    output: str
    seconds: float


@dataclass(frozen=True)
class Walls:
    """What stood between the programs and the machine."""

    isolation: str
    network: str
    files: str
    processes: str
    user: str
    process_limit: bool
    limits: Limits
    by: str = "namespaces"  # who built the walls


def describe(isolation: str, limits: Limits) -> Walls:
    """Say what stands between the programs and the machine."""
    if isolation == "full":
        return Walls(
            isolation=isolation,
            network="none",
            files="read-only system folders and a /tmp in memory",
            processes="a namespace that ends with the program",
            user="unprivileged, no capabilities",
            process_limit=True,
            limits=limits,
            by="bubblewrap" if bubblewrap() else "namespaces",
        )
    held = os.geteuid() != 0  # the kernel does not hold root to it
    group = "a process group"
    return Walls(isolation, "open", "open to the user", group, "the caller", held, limits, "none")


def probe(limits: Limits, isolation: str) -> None:
    """Raise UserError unless programs can be run here."""
    if not hasattr(os, "waitid"):
        raise UserError(
            "programs cannot be run on this system: it takes Linux, or macOS with Python 3.13"
        )
    tried = run("pass", limits, isolation)
    if tried.verdict != "passed":
        why = tried.detail or tried.output.strip() or tried.verdict
        other = (
            "; apt-get install bubblewrap may help, and --isolation limits runs them with network "
            "and files open: only where nothing can be lost, such as a container without network"
        )
        raise UserError(
            f"programs cannot be run with --isolation {isolation} here ({why})"
            + (other if isolation == "full" else "")
        )


def run(
    program: str,
    limits: Limits = Limits(),
    isolation: str = "full",
    handles: Sequence[int] = (),
) -> Outcome:
    """Run a program to its end or to its limit, and end every process of it.

    The `handles` are given away: the program has them open, and they are closed here.

    Example:
        >>> run("assert 1 + 1 == 3", isolation="limits").verdict
        'failed'
    """
    way = isolation
    if isolation == "full":
        way = "bubblewrap" if bubblewrap() else "namespaces"
    return _run(program, limits, way, handles)


@cache
def bubblewrap() -> bool:
    """Is bubblewrap installed, and does it work here?"""
    return bool(shutil.which("bwrap")) and _run("pass", Limits(), "bubblewrap").verdict == "passed"


def _run(program: str, limits: Limits, way: str, handles: Sequence[int] = ()) -> Outcome:
    with (
        tempfile.TemporaryDirectory(prefix="adlm-", ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile() as source,
    ):
        source.write(program.encode("utf-8", "replace"))
        source.seek(0)
        (told, tell), (held, hold) = os.pipe(), os.pipe()
        inner = "limits" if way == "bubblewrap" else way
        given = {"isolation": inner, "home": home, "pipe": tell, "limits": asdict(limits)}
        bare = [PYTHON, "-I", "-S", "-B", "-c", Path(walls.__file__).read_text(encoding="utf-8")]
        words = [*bare, json.dumps(given)]
        if way == "bubblewrap":
            lent = walls.lent(home) if os.geteuid() == 0 else {}
            words = [*_bubblewrap(limits, hold, lent), "--", *words]
            if lent:
                words = [*bare, json.dumps({"home": home, "pipe": tell, "words": words})]
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/" if way == "bubblewrap" else home,
            env={},
            pass_fds=[tell, *handles, *([hold] if way == "bubblewrap" else [])],
            start_new_session=True,
        )
        assert process.stdout
        for handle in (tell, hold, *handles):
            os.close(handle)
        try:
            pipes = {process.stdout.fileno(): limits.output, told: 1 << 12}
            (output, verdict), in_time = _listen(process, pipes, began + limits.seconds)
        finally:
            _end(process, way, held)
            process.stdout.close()
            os.close(told)
            os.close(held)
    how, detail = _verdict(verdict, process.returncode) if in_time else ("timeout", "")
    return Outcome(how, detail, output.decode("utf-8", "replace"), time.monotonic() - began)


def _bubblewrap(limits: Limits, hold: int, lent: dict[str, str]) -> list[str]:
    """Return the command that builds the walls, and tells `hold` which process is their first.

    `lent` are folders that it finds at other places than their own.
    """
    words = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
    words += ["--new-session", "--cap-drop", "ALL", "--info-fd", str(hold)]
    for path in walls.needed():
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        else:
            how = "--dev-bind" if path.startswith("/dev/") else "--ro-bind"
            words += [how, lent.get(path, path), path]
    words += ["--size", str(limits.disk_mb << 20), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*words, "--remount-ro", "/"]


def _listen(
    process: subprocess.Popen[bytes], pipes: dict[int, int], until: float
) -> tuple[list[bytearray], bool]:
    """Return the first bytes of each pipe, {handle: how many}; and did the process end in time?"""
    held = {pipe: bytearray() for pipe in pipes}
    ended = False
    with selectors.DefaultSelector() as ready:
        for pipe in pipes:
            ready.register(pipe, selectors.EVENT_READ)
        while time.monotonic() < until and not (ended and not ready.get_map()):
            for key, _ in ready.select(0.02):
                piece = os.read(key.fd, 1 << 16)
                held[key.fd] += piece[: pipes[key.fd] - len(held[key.fd])]
                if not piece:
                    ready.unregister(key.fd)
            if not ready.get_map():
                time.sleep(0.005)
            if not ended and _is_over(process):
                ended = True
                _kill(process)  # what it left behind may hold the pipes
                until = time.monotonic() + 1
    return list(held.values()), ended


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Has it ended? It is not collected yet, so that its number is not given to another."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], way: str, held: int) -> None:
    """End all of it; in namespaces the outermost process sees to the rest and waits for it."""
    until = time.monotonic() + 5
    first = _first(held) if way == "bubblewrap" else None
    if way == "namespaces" and not _is_over(process):
        os.kill(process.pid, signal.SIGTERM)
        while not _is_over(process) and time.monotonic() < until:
            time.sleep(0.005)
    _kill(process)
    process.wait()
    if first is not None:
        select.select([first], [], [], 5)
        os.close(first)


def _first(held: int) -> int | None:
    """Return a handle of bubblewrap's first process inside, or None where there is none (any more).

    It outlives all others there: the kernel ends them, and only then lets it be gone.
    """
    said = os.read(held, 1 << 12) if select.select([held], [], [], 0)[0] else b""
    number = re.search(rb'"child-pid": (\d+)', said)
    try:
        return os.pidfd_open(int(number[1])) if number else None
    except OSError:
        return None


def _verdict(told: bytes | bytearray, code: int) -> tuple[str, str]:
    """Return what the program's interpreter said, or else how it ended."""
    try:
        said = json.loads(told)
        return str(said["verdict"]), str(said["detail"])
    except (ValueError, KeyError, TypeError):
        number = -code if code < 0 else code - 128
        if number == signal.SIGXCPU:
            return "timeout", "CPU time"
        what = f"signal {number}" if number > 0 else f"exit code {code}"
        return "raised", f"ended by {what} before its end"
