"""Where the numbers are computed and how precisely; every result file says both."""

from __future__ import annotations

import os
import platform
import re
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from adlm import __version__
from adlm.errors import UserError

NO_FP64 = ("mps",)
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")  # what a CPU is told not to use


def pick(name: str = "auto") -> str:
    """Return a device; 'auto' is the GPU of this process (CUDA, then Apple's), else the CPU."""
    apple = torch.backends.mps.is_available()
    if name == "auto" and not torch.cuda.is_available():
        return "mps" if apple else "cpu"
    if name == "cpu" or (name == "mps" and apple):
        return name
    if not re.fullmatch(r"auto|mps|cuda(:[0-9]{1,4})?", name):
        raise UserError(f"device must be auto, cpu, mps, cuda or cuda:N, found '{name}'")
    if name == "mps":
        raise UserError("device 'mps' was asked for, but this machine has no Apple GPU")
    if not torch.cuda.is_available():
        raise UserError(f"device '{name}' was asked for, but this machine has no usable GPU")
    index = int(name[5:] or 0) if ":" in name else int(os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise UserError(f"there is no GPU {index}: this machine has {torch.cuda.device_count()}")
    return f"cuda:{index}"


def wide(device: str | torch.device) -> torch.device:
    """Return where a device's fp64 numbers are: Apple's GPUs have none, so on the CPU."""
    place = torch.device(device)
    return torch.device("cpu") if place.type in NO_FP64 else place


def bring(x: torch.Tensor, device: str | torch.device) -> torch.Tensor:
    """fp64 numbers to a device, as fp32 where it has none."""
    narrow = torch.device(device).type in NO_FP64 and x.dtype == torch.float64
    return (x.float() if narrow else x).to(device)


def wait_for(device: str) -> None:
    """Wait until a GPU has done what it was told; a CPU always has."""
    if (kind := torch.device(device).type) != "cpu":
        getattr(torch, kind).synchronize()


@cache
def fast_bf16(device: str) -> bool:
    """Measure, in some milliseconds, whether matrix products in bf16 are worth it here.

    A CPU may know bf16 and be a hundred times slower at it than at fp32, so the larger product is
    tried only where bf16 keeps up with a small one.
    """
    large = 256 if device == "cpu" else 4096
    return all(
        product_seconds(torch.bfloat16, size, device) * gain
        < product_seconds(torch.float32, size, device)
        for size, gain in ((64, 0.1), (large, 1.3))
    )


def product_seconds(dtype: torch.dtype, size: int, device: str, tries: int = 9) -> float:
    """Time square matrix products; the shortest counts, so that other work hardly matters."""
    a = torch.full((size, size), 0.5, dtype=dtype, device=device)  # no random number is drawn
    spent = []
    for _ in range(tries):
        began = time.perf_counter()
        a @ a
        wait_for(device)
        spent.append(time.perf_counter() - began)
    return min(spent)


def precision(name: str, device: str) -> str:
    """Return a precision; 'auto' is bf16 where that is fast, else fp32."""
    return ("bf16" if fast_bf16(device) else "fp32") if name == "auto" else name


def autocast(precision: str, device: str) -> AbstractContextManager[Any]:
    """Compute matrix products in bf16 where so chosen; weights, norms and losses stay fp32."""
    return torch.autocast(device.split(":")[0], torch.bfloat16, enabled=precision == "bf16")


@dataclass(frozen=True)
class Machine:
    """What a result file says of the machine."""

    cpu: str
    limits: dict[str, str]  # what the environment keeps the CPU from using
    cores: int | None
    threads: int
    gpu: str | None
    system: str
    python: str
    torch: str
    adlm: str


def machine(device: str = "cpu") -> Machine:
    """Look at this machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        cpu=cpu_name(),
        limits={name: os.environ[name] for name in LIMITS if name in os.environ},
        cores=len(affinity(0)) if affinity else os.cpu_count(),
        threads=torch.get_num_threads(),
        gpu=gpu_name(device),
        system=platform.system(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        adlm=__version__,
    )


def gpu_name(device: str) -> str | None:
    if device == "mps":
        return f"{cpu_name()} (Metal)"
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else None


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def free_memory(device: str = "auto") -> int | None:
    """Bytes that a training process may take on this machine, where that is known."""
    where = pick() if device == "auto" else device
    if where.startswith("cuda"):
        return torch.cuda.get_device_properties(where).total_memory
    memory = memory_bytes()
    return memory[1] if memory else None


def memory_bytes() -> tuple[int, int] | None:
    """Total and available memory of this machine, where the system tells."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        kib = [int(lines[key].split()[0]) for key in ("MemTotal", "MemAvailable")]
    except (OSError, KeyError, ValueError):
        return None
    return kib[0] * 1024, kib[1] * 1024


def check_memory(needed: float, what: str, less: str, device: str = "cpu") -> None:
    """Raise UserError where an estimate of bytes is far beyond all that the device has.

    An estimate may be wrong by half, so what only may be too much is tried. `less` says what helps.
    """
    found = memory_bytes() if not device.startswith("cuda") else None
    total = found[0] if found else free_memory(device)
    if total is not None and needed > 1.5 * total:
        raise UserError(
            f"there is not enough memory: {what} takes about {needed / 2**30:,.0f} GiB, "
            f"and there are {total / 2**30:,.0f}: {less}"
        )
