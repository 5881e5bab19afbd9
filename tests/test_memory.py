"""What the process asks of the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEP = """
import sys, torch
from adlm import memory
if sys.argv[1] == "keep":
    memory.keep()
def pages():
    return int(open("/proc/self/statm").read().split()[1])
before = pages()
parts = [torch.ones(1 << 20) for _ in range(16)]  # 4 MiB each
del parts
print(pages() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator")
@pytest.mark.parametrize(("how", "kept"), [("keep", True), ("give back", False)])
def test_memory_is_kept_for_the_next_step(how: str, kept: bool) -> None:
    out = subprocess.run([sys.executable, "-c", STEP, how], capture_output=True, check=True)
    assert (int(out.stdout) > 15_000) == kept  # of 16 * 1,024 pages
