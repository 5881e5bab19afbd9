"""The walls around a program, built from inside the process that becomes it.

    namespaces  a network without any device; a root folder of read-only system folders, the
                interpreter, and a small /tmp in memory; processes that end with the first; an
                unprivileged user without capabilities. Linux has to permit it.
    limits      only the limits. Behind bubblewrap's walls they are all that is left to do.
    lend        not walls yet: root becomes bubblewrap as a user of no account, who is shown the
                interpreter also where that lies in a private folder.

`sandbox.py` runs this file's text in a bare interpreter: it imports nothing of the package.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
from dataclasses import dataclass
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


def enter(isolation: str, home: str, pipe: int, limits: Limits) -> NoReturn:
    """Build the walls and become the program; where that fails, say why."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            _die_with_parent(libc)
        if isolation == "namespaces":
            _leave(libc, home, limits.disk_mb)
        _limit(limits)
        words = [PYTHON, "-I", "-S", "-B", "-c", DRIVER, str(pipe)]
        os.execve(PYTHON, words, {})
    except (OSError, AttributeError, ValueError) as error:
        _unavailable(pipe, error)


def _unavailable(pipe: int, error: Exception) -> NoReturn:
    said = {"verdict": "unavailable", "detail": str(error)}
    os.write(pipe, json.dumps(said).encode())
    os._exit(1)


def _leave(libc: Any, home: str, disk_mb: int) -> None:
    """Move into namespaces of our own; only the process that becomes the program returns."""
    user, group, own = os.geteuid(), os.getegid(), own_user(os.getpid())
    spaces = NEWNS | NEWNET | NEWPID | NEWIPC | NEWUTS
    _call(libc, "unshare", spaces | (NEWUSER if user else 0))
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"1000 {user} 1")
        _write("/proc/self/gid_map", f"1000 {group} 1")
    _furnish(libc, home, home + "/root", disk_mb)
    for _ in range(2):  # the first is the new namespace's init, whose end ends all
        if child := os.fork():
            _follow(child)
        _die_with_parent(libc)
    os.setsid()
    if not user:
        _become(own)
    _call(libc, "prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS; capabilities end with execve


def lent(home: str) -> dict[str, str]:
    """Return where `lend` shows the interpreter's folders, in `home`: {folder: place}."""
    own = [path for path in needed() if path not in SYSTEM]
    return {path: f"{home}/{number}" for number, path in enumerate(own)}


def lend(home: str, pipe: int, words: list[str]) -> NoReturn:
    """Show the interpreter's folders in `home` and become `words` as a user of no account.

    The kernel holds only others than root to their number of processes, and only in a namespace of
    our own is the interpreter shown to them. The mounts end with the last process.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        _call(libc, "unshare", NEWNS)
        _mount(libc, "none", "/", "", MS_REC | MS_PRIVATE)
        _mount(libc, "adlm", home, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
        for path, place in lent(home).items():
            os.mkdir(place)
            _mount(libc, path, place, "", MS_BIND | MS_REC)
        _become(own_user(os.getpid()))
        os.execvpe(words[0], words, {"PATH": os.defpath})
    except (OSError, AttributeError) as error:
        _unavailable(pipe, error)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def own_user(number: int) -> int:
    """Return a user id that nothing else has."""
    return USER + number % 100_000


def _follow(child: int) -> NoReturn:
    """End as a child does, and after it; asked to end, end it."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _furnish(libc: Any, home: str, root: str, disk_mb: int) -> None:
    """A new root folder: system folders and the interpreter read-only, and an empty /tmp."""
    os.umask(0o022)
    _mount(libc, "none", "/", "", MS_REC | MS_PRIVATE)
    _mount(libc, "adlm", home, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for path in needed():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
            continue
        if os.path.isdir(path):
            os.makedirs(root + path, exist_ok=True)
        else:
            _write(root + path, "")
        _mount(libc, path, root + path, "", MS_BIND | MS_REC)
    os.mkdir(root + "/tmp")
    _read_only(libc, home)
    room = f"size={disk_mb}m,nr_inodes=1024,mode=0777"
    _mount(libc, "adlm", root + "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, room)
    os.chdir(home)
    _call(libc, "pivot_root", b".", b".")
    _call(libc, "umount2", b".", 2)  # MNT_DETACH: the old root is gone
    os.chroot("/root")  # in a chroot no further user namespace can be had
    os.chdir("/tmp")


def needed() -> list[str]:
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


def _limit(limits: Limits) -> None:
    import resource

    seconds, mb = math.ceil(limits.seconds), 1 << 20
    bounds = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_AS: (limits.memory_mb * mb,) * 2,
        resource.RLIMIT_FSIZE: (limits.file_mb * mb,) * 2,
        resource.RLIMIT_NOFILE: (limits.handles,) * 2,
        resource.RLIMIT_NPROC: (limits.processes,) * 2,
    }
    for which, pair in bounds.items():
        resource.setrlimit(which, pair)


def _die_with_parent(libc: Any) -> None:
    _call(libc, "prctl", 1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def _mount(libc: Any, what: str, where: str, kind: str, flags: int, options: str = "") -> None:
    words = [w.encode() for w in (what, where, kind)]
    _call(libc, "mount", *words, ctypes.c_ulong(flags), options.encode())


def _call(libc: Any, name: str, *words: Any) -> None:
    if getattr(libc, name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if "words" in given:
        lend(**given)
    enter(**{**given, "limits": Limits(**given["limits"])})
