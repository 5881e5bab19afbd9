"""`adlm sample`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from adlm import device as devices
from adlm.models.hub import load_model
from adlm.samplers.categorical import Draw
from adlm.samplers.generate import generate
from adlm.train import checkpoint


def start(
    checkpoint_or_run: str,
    n: int = 4,
    prompt: str = "",
    sampler: str | None = None,
    steps: int = 0,
    draw: Draw = Draw(),
    seed: int = 0,
    length: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    json_out: str | None = None,
) -> None:
    """Generate texts.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        n: How many.
        prompt: What every text begins with.
        sampler: ancestral, first-hitting or confidence for diffusion; causal for AR and A2R.
        steps: Denoising steps; by default one for each token.
        draw: How a token is drawn.
        seed: Seed; text i is the same whatever n is.
        length: Tokens of a text; the trained length by default.
        device: auto, cpu, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        json_out: Also write the samples as JSON lines to this file (--json is short for it).
    """
    saved = checkpoint.load(checkpoint_or_run)
    where = devices.pick(device)
    made = generate(
        load_model(saved, where),
        saved.config,
        saved.vocab,
        n,
        prompt,
        sampler,
        steps,
        draw,
        seed,
        length,
        where,
        devices.precision(precision, where),
    )
    for number, text in enumerate(made.texts):
        print(f"--- {number}\n{text}")
    count = made.tokens.size
    print(
        f"--- {made.sampler}: {count:,} tokens in {made.seconds:.1f} s "
        f"({count / made.seconds:,.0f} tokens/s), {made.nfe.mean():.1f} network passes a text"
    )
    if json_out:
        rows = zip(made.texts, made.tokens.tolist(), made.nfe.tolist(), strict=True)
        lines = [
            json.dumps({"text": t, "tokens": k, "nfe": c, "sampler": made.sampler, "seed": seed})
            for t, k, c in rows
        ]
        Path(json_out).write_text("\n".join(lines) + "\n")
