"""Runs a program that nobody has read: in a process of its own, with limits and behind walls.

`run` starts this very file as a bare interpreter (`-I -S`, no environment, a session of its own).
That process builds the walls from inside and becomes the program:

    full    namespaces of its own: a network without any device; a root folder of read-only system
            folders, the interpreter, and a small /tmp in memory; processes that end with the first;
            an unprivileged user without capabilities. Linux has to permit it.
    limits  only the limits: the network and the user's files are open to the program.

Both limit CPU and wall-clock time, memory, file size, processes, open files and output. This file
imports nothing of the package, so that it can run alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

PYTHON = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache", "/dev/null")
USER = 1_900_000_000  # first of the user ids that root's programs get; no system gives these out
NEWNS, NEWUTS, NEWIPC, NEWUSER = 0x20000, 0x4000000, 0x8000000, 0x10000000
NEWPID, NEWNET = 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000

# what the program's interpreter runs: the verdict goes through a pipe of its own
DRIVER = """
import json, os, sys
pipe, write, leave, dumps = int(sys.argv.pop()), os.write, os._exit, json.dumps
number, me = os.getpid(), os.getpid
source = sys.stdin.buffer.read()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.argv[:] = ["program.py"]
verdict, detail = "passed", ""
try:
    exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
except BaseException as error:
    verdict = "failed" if isinstance(error, AssertionError) else "raised"
    try:
        detail = f"{type(error).__name__}: {error}"[:300]
    except BaseException:
        detail = "an error without a text"
try:
    sys.stdout.flush()
except BaseException:
    pass
if me() == number:  # not a copy that the program made of itself
    write(pipe, dumps({"verdict": verdict, "detail": detail}).encode())
leave(0)
"""


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    seconds: float = 10.0  # on the wall clock, and of CPU time (rounded up) in each process
    memory_mb: int = 512  # address space of each process
    file_mb: int = 8  # each file
    disk_mb: int = 32  # all files together; only behind full walls
    processes: int = 8
    handles: int = 64  # open files
    output: int = 1 << 14  # bytes that are kept; the rest is read and thrown away


@dataclass(frozen=True)
class Outcome:
    """How a program ended: passed, failed (an assert), raised, timeout, or unavailable walls."""

    verdict: str
    detail: str
    output: str
    seconds: float


def describe(isolation: str, limits: Limits) -> dict[str, Any]:
    """What stood between the programs and the machine, for a result file."""
    full = isolation == "full"
    return {
        "isolation": isolation,
        "network": "none" if full else "open",
        "files": "read-only system folders and a /tmp in memory" if full else "open to the user",
        "processes": "a namespace that ends with the program" if full else "a process group",
        "user": "unprivileged, no capabilities" if full else "the caller",
        "process_limit": full or os.geteuid() != 0,  # the kernel does not hold root to it
        "limits": asdict(limits),
    }


def run(program: str, limits: Limits = Limits(), isolation: str = "full") -> Outcome:
    """Run a program to its end or to its limit, and end every process of it.

    Example:
        >>> run("assert 1 + 1 == 3", isolation="limits").verdict
        'failed'
    """
    with (
        tempfile.TemporaryDirectory(prefix="adlm-", ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile() as source,
    ):
        source.write(program.encode("utf-8", "replace"))
        source.seek(0)
        told, tell = os.pipe()
        plan = {"isolation": isolation, "home": home, "pipe": tell, **asdict(limits)}
        began = time.monotonic()
        process = subprocess.Popen(
            [PYTHON, "-I", "-S", "-B", os.path.abspath(__file__), json.dumps(plan)],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env={},
            pass_fds=[tell],
            start_new_session=True,
        )
        assert process.stdout
        os.close(tell)
        try:
            pipes = {process.stdout.fileno(): limits.output, told: 1 << 12}
            (output, verdict), in_time = _listen(process, pipes, began + limits.seconds)
        finally:
            _end(process, isolation)
            process.stdout.close()
            os.close(told)
    how, detail = _verdict(verdict, process.returncode) if in_time else ("timeout", "")
    return Outcome(how, detail, output.decode("utf-8", "replace"), time.monotonic() - began)


def _listen(
    process: subprocess.Popen[bytes], pipes: dict[int, int], until: float
) -> tuple[list[bytearray], bool]:
    """The first bytes of each pipe, {handle: how many}; and did the process end in time?"""
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


def _end(process: subprocess.Popen[bytes], isolation: str) -> None:
    """End all of it; behind full walls the outermost process sees to the rest and waits for it."""
    until = time.monotonic() + 5
    if isolation == "full" and not _is_over(process):
        os.kill(process.pid, signal.SIGTERM)
        while not _is_over(process) and time.monotonic() < until:
            time.sleep(0.005)
    _kill(process)
    process.wait()


def _verdict(told: bytes | bytearray, code: int) -> tuple[str, str]:
    """What the program's interpreter said, or else how it ended."""
    try:
        said = json.loads(told)
        return str(said["verdict"]), str(said["detail"])
    except (ValueError, KeyError, TypeError):
        number = -code if code < 0 else code - 128
        if number == signal.SIGXCPU:
            return "timeout", "CPU time"
        what = f"signal {number}" if number > 0 else f"exit code {code}"
        return "raised", f"ended by {what} before its end"


# ---- from here on: inside the new process ----


def enter(plan: dict[str, Any]) -> NoReturn:
    """Build the walls and become the program; where that fails, say why."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            _die_with_parent(libc)
        if plan["isolation"] == "full":
            _leave(libc, plan)
        _limit(plan)
        words = [PYTHON, "-I", "-S", "-B", "-c", DRIVER, str(plan["pipe"])]
        os.execve(PYTHON, words, {})
    except (OSError, AttributeError, ValueError) as error:
        said = {"verdict": "unavailable", "detail": str(error)}
        os.write(plan["pipe"], json.dumps(said).encode())
    os._exit(1)


def _leave(libc: Any, plan: dict[str, Any]) -> None:
    """Move into namespaces of our own; only the process that becomes the program returns."""
    user, group, own = os.geteuid(), os.getegid(), USER + os.getpid() % 100_000
    spaces = NEWNS | NEWNET | NEWPID | NEWIPC | NEWUTS
    _call(libc, "unshare", spaces | (NEWUSER if user else 0))
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"1000 {user} 1")
        _write("/proc/self/gid_map", f"1000 {group} 1")
    _furnish(libc, plan["home"], plan["home"] + "/root", plan["disk_mb"])
    for _ in range(2):  # the first is the new namespace's init, whose end ends all
        if child := os.fork():
            _follow(child)
        _die_with_parent(libc)
    os.setsid()
    if not user:
        os.setgroups([])
        os.setresgid(own, own, own)
        os.setresuid(own, own, own)
    _call(libc, "prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS; capabilities end with execve


def _follow(child: int) -> NoReturn:
    """End as a child does, and after it; asked to end, end it."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _furnish(libc: Any, home: str, root: str, disk_mb: int) -> None:
    """A new root folder: system folders and the interpreter read-only, and an empty /tmp."""

    def mount(what: str, where: str, kind: str, flags: int, options: str = "") -> None:
        words = [w.encode() for w in (what, where, kind)]
        _call(libc, "mount", *words, ctypes.c_ulong(flags), options.encode())

    os.umask(0o022)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("adlm", home, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for path in _needed():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
            continue
        if os.path.isdir(path):
            os.makedirs(root + path, exist_ok=True)
        else:
            _write(root + path, "")
        mount(path, root + path, "", MS_BIND | MS_REC)
    os.mkdir(root + "/tmp")
    _read_only(libc, home)
    room = f"size={disk_mb}m,nr_inodes=1024,mode=0777"
    mount("adlm", root + "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, room)
    os.chdir(home)
    _call(libc, "pivot_root", b".", b".")
    _call(libc, "umount2", b".", 2)  # MNT_DETACH: the old root is gone
    os.chroot("/root")  # in a chroot no further user namespace can be had
    os.chdir("/tmp")


def _needed() -> list[str]:
    """Folders and files that an interpreter needs; none inside another."""
    own = [os.path.realpath(p) for p in (sys.base_prefix, sys.base_exec_prefix)]
    out: list[str] = []
    for path in (*SYSTEM, *own, os.path.dirname(PYTHON)):
        inside = any(path == o or path.startswith(o + "/") for o in out)
        if os.path.exists(path) and not inside:
            out.append(path)
    return out


def _read_only(libc: Any, path: str) -> None:
    """Everything mounted below a path."""
    attributes = (ctypes.c_uint64 * 4)(1 | 2, 0, 0, 0)  # MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID
    number, here, deep, size = (ctypes.c_long(n) for n in (442, -100, 0x8000, 32))
    words = (number, here, path.encode(), deep, ctypes.byref(attributes), size)
    _call(libc, "syscall", *words)  # mount_setattr, AT_RECURSIVE


def _limit(plan: dict[str, Any]) -> None:
    import resource

    seconds, mb = math.ceil(plan["seconds"]), 1 << 20
    limits = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_AS: (plan["memory_mb"] * mb,) * 2,
        resource.RLIMIT_FSIZE: (plan["file_mb"] * mb,) * 2,
        resource.RLIMIT_NOFILE: (plan["handles"],) * 2,
        resource.RLIMIT_NPROC: (plan["processes"],) * 2,
    }
    for which, pair in limits.items():
        resource.setrlimit(which, pair)


def _die_with_parent(libc: Any) -> None:
    _call(libc, "prctl", 1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def _call(libc: Any, name: str, *words: Any) -> None:
    if getattr(libc, name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]))
