"""`adlm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from adlm.hub import export as hub
from adlm.models import checkpoint


def export(checkpoint_or_run: str, to: str | None = None, bits: Literal["16", "32"] = "32") -> None:
    """Write a folder for the hub that plain transformers loads: weights, code, tokenizer, card.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        to: The folder, new or empty; exports/RUN by default.
        bits: 16 rounds the weights to bf16: half the size, for use rather than further training.
    """
    saved = checkpoint.load(checkpoint_or_run)
    folder = Path(to or f"exports/{saved.run.resolve().name}").expanduser()
    files = hub.export(saved, folder, int(bits))
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files):,} bytes, in {folder}")
    print(f"next: adlm push {folder} USER/NAME, or adlm.load({str(folder)!r}) in Python")
