"""The shim of `shim.c`: compiled once, loaded before libc into this process and its children."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from attack import place

SOURCE = Path(__file__).with_name("shim.c")


def load() -> bool:
    """Begin this process anew with the shim, unless it has it; False without a compiler."""
    made = place.HOME / "shim.so"
    if str(made) in os.environ.get("LD_PRELOAD", ""):
        return True
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler or not sys.platform.startswith("linux"):
        return False
    made.parent.mkdir(parents=True, exist_ok=True)
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    os.environ["LD_PRELOAD"] = str(made)
    os.execv(sys.executable, [sys.executable, "-m", "attack", *sys.argv[1:]])


def arm(folder: Path, last: int, stay: bool = True, jump: int = 0) -> None:
    """Let writes below a folder fail from the `last`-th on, or the clock jump by seconds there."""
    ctypes.CDLL(None).attack_arm(
        str(folder).encode(), ctypes.c_long(last), stay, ctypes.c_long(jump)
    )


def count() -> int:
    """Return how many writes there were since."""
    library = ctypes.CDLL(None)
    library.attack_count.restype = ctypes.c_long
    return library.attack_count()
