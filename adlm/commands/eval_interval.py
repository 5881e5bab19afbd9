"""`adlm eval interval`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from adlm import device as devices
from adlm.config import check
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.eval.interval import Intervals
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.objectives.interval import search
from adlm.objectives.likelihood import spread
from adlm.samplers.generate import in_blocks


def eval_interval(
    checkpoint_or_run: str,
    split: Literal["train", "valid", "test"] = "valid",
    limit: int = 256,
    batch: int = 64,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    out: str | None = None,
) -> None:
    """Search the interval of times on which block diffusion's training loss varies least.

    Give the best one to the next part of the training: --process.clip '[0.45, 0.95]'.

    Args:
        checkpoint_or_run: A checkpoint of block diffusion, or a run (its newest one is taken).
        split: Which part of its data.
        limit: Score at most so many rows, spread evenly; 0 = all.
        batch: Rows at once.
        seed: Seed of the draws.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        out: Result file; eval/interval-SPLIT.json of the run by default.
    """
    check(limit >= 0, "--limit", limit, "0 (all rows) or more")
    check(batch >= 1, "--batch", batch, "at least 1")
    check(0 <= seed < 2**31, "--seed", seed, "in [0, 2^31)")
    saved = checkpoint.load(checkpoint_or_run)
    if not in_blocks(saved.config):
        raise UserError(
            f"{checkpoint_or_run} must be of block diffusion, found {saved.config.objective}"
        )
    where = devices.pick(device)
    how = devices.precision(precision, where)
    rows = open_rows(saved.config.data, split, saved.vocab)
    index = spread(len(rows), limit)
    check(len(index) >= 2, "--limit", limit, f"at least 2 rows; {split} has {len(rows)}")
    model = load_model(saved, where)
    found = search(model, saved.config, saved.vocab, rows, index, seed, batch, where, how)
    block = saved.config.process.block
    result = Intervals(
        split=split, rows=len(index), seed=seed, block=block, checkpoint=saved.hash, found=found
    )
    path = Path(out) if out else saved.run / "eval" / f"interval-{split}.json"
    result.stamped(where, how).save(path)
    print(result.summary())
    print(f"written to {path}")
