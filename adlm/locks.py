"""Locks on files that the system drops when a process dies, also after kill -9.

They are the system's own (flock, or LockFileEx on Windows), never a file whose mere existence is
the lock: that would outlive its process. The lock file itself is empty and stays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from filelock import AcquireReturnProxy, Timeout, UnixFileLock, WindowsFileLock

from adlm.errors import UserError

SystemLock = WindowsFileLock if sys.platform == "win32" else UnixFileLock


def lock(file: Path, wait: bool = True) -> AcquireReturnProxy:
    """Lock a file until the result's context is left, or nothing holds the result any more."""
    return SystemLock(file, fallback_to_soft=False).acquire(blocking=wait)


def hold(folder: Path) -> AcquireReturnProxy:
    """Lock a run's folder in the same way; raise UserError where another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return lock(folder / ".lock", wait=False)
    except Timeout:
        raise UserError(f"another process is training in {folder}") from None
