"""What systems do differently: signals, groups of processes, folders on the disk, memory.

Each function asks for the feature, never for the system's name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TypedDict


def stops() -> list[signal.Signals]:
    """List the signals that ask a process to save and leave; Ctrl-Break is Windows's."""
    names = ("SIGINT", "SIGTERM", "SIGBREAK")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def hangup() -> list[signal.Signals]:
    """List a closed terminal's signal; none under nohup, or where there is none."""
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [signal.SIGHUP]


class Group(TypedDict, total=False):
    """Popen's arguments, of which a system has one."""

    process_group: int
    creationflags: int


def own_group() -> Group:
    """Return Popen's arguments for a process that Ctrl-C in this terminal does not reach."""
    flag = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", None)  # Windows has no other
    return {"process_group": 0} if flag is None else {"creationflags": flag}


def ask_to_leave(process: subprocess.Popen[bytes]) -> None:
    """Send a signal that the process can catch; on Windows terminate() would kill it."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk; some systems cannot do it to folders."""
    if not path.is_dir():
        _sync(path, os.O_RDWR)  # to read only, Windows does not flush it
        return
    with contextlib.suppress(OSError):
        _sync(path, os.O_RDONLY)


def _sync(path: Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def peak_memory_mib() -> float | None:
    """Return the most memory that this process has had, where the system tells.

    Where /proc has it, it is this program's own: getrusage counts what the process that started it
    had, too.
    """
    if (own := _own_peak()) is not None:
        return own
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere


def _own_peak() -> float | None:
    """MiB by /proc, where there is one that tells."""
    if sys.platform == "darwin":
        return None
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return None
    said = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(said[1]) / 2**10 if said else None
