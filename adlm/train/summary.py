"""What a run says when it begins and when it is done."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import nn

from adlm.config import Config
from adlm.data.pack import Rows
from adlm.models import checkpoint
from adlm.progress import sparkline
from adlm.train.distributed import World
from adlm.train.log import read


def beginning(
    config: Config, model: nn.Module, rows: Rows, step: int, on: tuple[World, str, str]
) -> str:
    """Say what is about to be trained, on what and where: (processes, device, precision)."""
    world, device, precision = on
    size = sum(p.numel() for p in model.parameters())
    tokens = int(rows.count.sum())
    goal = config.train.steps * config.train.batch
    where = f"{world.size} x {device}" if world.size > 1 else device
    if device == "cpu":
        where += f" ({torch.get_num_threads()} threads)"
    lines = [
        f"model     {config.objective}, {size:,} parameters",
        f"data      {config.data.name}: {len(rows):,} rows, {tokens:,} tokens",
        f"training  {config.train.steps:,} steps of {config.train.batch} rows of {rows.length}: "
        f"{goal * tokens / len(rows):,.0f} tokens, {goal / len(rows):.1f} epochs",
        f"on        {where}, {precision}",
    ]
    if step:
        lines.append(f"goes on   from step {step:,}")
    return "\n".join(lines)


def ending(out: Path, exact: bool) -> str:
    """Say what came out, and what one may do with it."""
    found = [r for r in read(out / "metrics.jsonl") if "valid_ppl" in r]
    lines = [f"done: {checkpoint.find(out)}"]
    if found:
        ppl, error = found[-1]["valid_ppl"], found[-1]["valid_se"]
        spread = f" ± {ppl * error:.1f}" if math.isfinite(error) else ""
        curve = f"   {sparkline([r['valid_nll'] for r in found])}" if len(found) > 2 else ""
        lines.append(f"validation PPL {'' if exact else '≤ '}{ppl:.1f}{spread}{curve}")
    nexts = (f"adlm {command} {out}" for command in ("sample", "watch", "eval likelihood"))
    return "\n".join([*lines, "next: " + ", ".join(nexts)])
