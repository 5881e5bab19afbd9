"""`adlm eval likelihood`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from adlm import device as devices
from adlm.config import DataConfig, check, to_dict
from adlm.data.corpus import open_rows
from adlm.errors import UserError
from adlm.eval.likelihood import describe, sign
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.models.hub import load_model
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.objectives.mdlm import of_bound
from adlm.results import stamped, write_json


@dataclass(frozen=True)
class DataChoice:
    """Which text is scored; what is not given is as the checkpoint was trained.

    Attributes:
        name: A named set, a file or folder, or hf:NAME (--data is short for it).
        dir: Folder that holds the named sets' files.
        field: Name of the text field.
        length: Tokens in a row.
        packing: wrap or document.
        tokenizer: Must be the checkpoint's own; here to be checked.
        workers: Threads that tokenise; 0 = all cores.
    """

    name: str | None = None
    dir: str | None = None
    field: str | None = None
    length: int | None = None
    packing: Literal["wrap", "document"] | None = None
    tokenizer: str | None = None
    workers: int | None = None


def start(
    checkpoint_or_run: str,
    data: DataChoice = DataChoice(),
    split: Literal["train", "valid", "test"] = "test",
    draws: int = 4,
    estimator: Literal["auto", "recipe"] = "auto",
    limit: int = 0,
    batch: int = 64,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    out: str | None = None,
) -> None:
    """Score text: perplexity with its standard error, and whether it is exact or a bound.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        data: Which text.
        split: Which part of it.
        draws: Monte-Carlo draws a row, for diffusion.
        estimator: auto takes exact-k where the model is time-agnostic; recipe keeps the training's,
            which is no bound where process.eps is above 0.
        limit: Score at most so many rows, spread evenly; 0 = all.
        batch: Rows at once; never changes the result.
        seed: Seed of the draws.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        out: Result file; eval/likelihood-DATA-SPLIT.json of the run by default.
    """
    check(draws >= 1, "--draws", draws, "at least 1")
    check(limit >= 0, "--limit", limit, "0 (all rows) or more")
    check(batch >= 1, "--batch", batch, "at least 1")
    check(0 <= seed < 2**31, "--seed", seed, "in [0, 2^31)")
    saved = checkpoint.load(checkpoint_or_run)
    where = devices.pick(device)
    how = devices.precision(precision, where)
    chosen = choose(saved, data)
    rows = open_rows(chosen, split, saved.vocab)
    auto = estimator == "auto"
    own = evaluator if auto else lambda config, vocab: make_objective(of_bound(config), vocab)
    objective = own(saved.config, saved.vocab)
    model = load_model(saved, where)
    found = score(model, objective, rows, spread(len(rows), limit), draws, seed, batch, where, how)
    if not math.isfinite(found.nll):
        raise UserError(f"{saved.path} gives a likelihood that is not finite on {chosen.name}")
    result = {
        "command": "eval likelihood",
        "data": chosen.name,
        "split": split,
        **describe(found, rows, objective, saved.lengths(), seed),
        "data_hash": rows.store.key,
        "checkpoint": saved.path.name,
        "checkpoint_hash": saved.hash,
        "tokenizer_hash": saved.vocab.hash,
        "config": to_dict(saved.config),
        "length": chosen.length,
        "packing": chosen.packing,
        "limit": limit,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    label = Path(chosen.name).name.replace(":", "-") or "data"
    path = Path(out) if out else saved.run / "eval" / f"likelihood-{label}-{split}.json"
    write_json(path, stamped(result, where, how))
    print(summary(result))
    print(f"written to {path}")


def choose(saved: Checkpoint, data: DataChoice) -> DataConfig:
    """The checkpoint's data settings with what the user gave."""
    given: dict[str, Any] = {k: v for k, v in vars(data).items() if v is not None}
    chosen = replace(saved.config.data, **given)
    if data.tokenizer is not None:
        from adlm.data.corpus import open_vocab

        if open_vocab(chosen).hash != saved.vocab.hash:
            raise UserError(
                f"the tokenizer '{data.tokenizer}' is not the checkpoint's "
                f"({saved.config.data.tokenizer}): leave --data.tokenizer out"
            )
    if chosen.length > saved.config.data.length:
        raise UserError(
            f"--data.length {chosen.length} is beyond the {saved.config.data.length} tokens "
            "that the checkpoint was trained with"
        )
    return chosen


def summary(result: dict[str, Any]) -> str:
    """The figures for a person."""
    said = (
        f"{result['data']} ({result['split']}): {line(result, result)}\n"
        f"{result['quantity']}; {result['tokens']:,} tokens in {result['rows']:,} rows, "
        f"{result['draws']} draw(s), {result['estimator']}; "
        f"± is one standard error over {result['documents']:,} documents"
    )
    if coded := result["with_length"]:
        said += (
            f"\nwith the lengths coded: {line(result, coded)}\n"
            f"this one compares with an autoregressive model's; {coded['code']}"
        )
    return said


def line(result: dict[str, Any], figures: dict[str, Any]) -> str:
    """Perplexity, nats and bits."""
    bound = sign(result)
    error = f" ± {figures['se_ppl']:.2f}" if figures["se_ppl"] is not None else ""
    return (
        f"PPL {bound}{figures['ppl']:.2f}{error}, {figures['nll_per_token']:.4f} nats a token, "
        f"{figures['bits_per_byte']:.4f} bits a byte"
    )
