"""`adlm eval zeroshot`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from adlm import device as devices
from adlm.config import check, to_dict
from adlm.data.pack import Rows
from adlm.errors import UserError
from adlm.eval.zeroshot import SUITE, Packing, run, table
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.objectives.likelihood import Likelihood, evaluator, score, spread
from adlm.registry import lookup
from adlm.results import stamped, write_json


@dataclass(frozen=True)
class Place:
    """Where the sets are.

    Attributes:
        dir: Folder with the sets' files (docs/data.md has their forms); ADLM_DATA by default.
        workers: Threads that tokenise; 0 = all cores. Never changes the result.
    """

    dir: str | None = None
    workers: int = 0


def start(
    checkpoint_or_run: str,
    sets: list[str] | None = None,
    data: Place = Place(),
    hub: bool | None = None,
    compat: Literal["none", "paper"] = "none",
    loader_workers: int = 8,
    length: int | None = None,
    draws: int = 4,
    limit: int = 0,
    batch: int = 64,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    out: str | None = None,
) -> None:
    """Score Lambada, PTB, WikiText, LM1B, AG News, PubMed, ArXiv and others in one go.

    The validation split of each, or its test split; sets that are not to be had are named. Stopped
    or failed half-way, the same command goes on with the sets that are left.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        sets: Which sets, as a list: '[ptb, lambada]'; all by default.
        data: Where the sets are.
        hub: Load sets that are not in the folder from the hub; by default where no folder is given.
        compat: paper packs as the published loaders do, so that the difference can be seen.
        loader_workers: How many workers that loader had; its rows depend on it.
        length: Tokens in a row; the trained length by default.
        draws: Monte-Carlo draws a row, for diffusion.
        limit: Score at most so many rows of a set, spread evenly; 0 = all.
        batch: Rows at once; never changes the result.
        seed: Seed of the draws.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        out: Result file; eval/zeroshot.json of the run by default.
    """
    check(draws >= 1, "--draws", draws, "at least 1")
    check(limit >= 0, "--limit", limit, "0 (all rows) or more")
    check(batch >= 1, "--batch", batch, "at least 1")
    check(loader_workers >= 1, "--loader_workers", loader_workers, "at least 1")
    check(0 <= seed < 2**31, "--seed", seed, "in [0, 2^31)")
    names = list(dict.fromkeys(SUITE if sets is None else sets))
    for name in names:
        lookup("dataset", name)
    saved = checkpoint.load(checkpoint_or_run)
    most = saved.config.data.length
    wanted = most if length is None else length
    check(3 <= wanted <= most, "--length", wanted, f"3 to {most}, the trained length")
    base = replace(saved.config.data, dir=data.dir, length=wanted, workers=data.workers)
    from_hub = (data.dir is None and "ADLM_DATA" not in os.environ) if hub is None else hub
    packing = Packing(compat == "paper", loader_workers)
    gpu = devices.pick(device)
    how = devices.precision(precision, gpu)
    objective = evaluator(saved.config, saved.vocab)
    model = load_model(saved, gpu)
    settings = {
        "command": "eval zeroshot",
        "checkpoint": saved.path.name,
        "checkpoint_hash": saved.hash,
        "tokenizer_hash": saved.vocab.hash,
        "config": to_dict(saved.config),
        "length": wanted,
        "packing": str(packing),
        "limit": limit,
        "draws": draws,
        "seed": seed,
    }
    path = Path(out) if out else saved.run / "eval" / "zeroshot.json"
    known = earlier(path, stamped(settings, gpu, how))

    def scored(rows: Rows) -> Likelihood:
        return score(model, objective, rows, spread(len(rows), limit), draws, seed, batch, gpu, how)

    def keep(done: dict[str, Any], skipped: dict[str, str]) -> None:
        every = {**known, **done}  # what an earlier run scored stays
        missing = {name: why for name, why in skipped.items() if name not in every}
        write_json(path, stamped({**settings, "sets": every, "skipped": missing}, gpu, how))

    done, skipped = run(
        names,
        base,
        saved.vocab,
        objective,
        packing,
        from_hub,
        scored,
        saved.lengths(),
        seed,
        known,
        keep,
    )
    keep(done, skipped)
    print(table(done))
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    print("± is one standard error over documents")
    print("the paper's models were trained on OpenWebText with another vocabulary")
    print(f"written to {path}")
    if not done:
        raise UserError("none of the sets could be scored")


def earlier(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run with the same settings has scored."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        same = all(before.get(k) == v for k, v in settings.items() if k != "time")
        return before["sets"] if same else {}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}
