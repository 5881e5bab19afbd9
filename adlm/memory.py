"""How this process deals with the system's memory."""

from __future__ import annotations

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep() -> None:
    """Keep the blocks that are freed: the next step asks for the same again.

    glibc gives the end of its heap back to the system again and again, and takes large blocks from
    there, so that every step waits for fresh pages. Without glibc nothing changes.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, -1)  # nothing is given back,
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 25)  # and what is smaller is kept: 32 MiB, the most
