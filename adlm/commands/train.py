"""`adlm train`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import Config
from adlm.train.run import train as run


def start(
    recipe: str,
    config: Config,
    out: str | None = None,
    size: str | None = None,
    resume: bool = False,
) -> int:
    """Train a recipe into a folder, with checkpoints and metrics.

    Args:
        recipe: Name of a recipe; 'adlm recipes' lists them.
        out: Folder of the run; runs/RECIPE by default.
        size: pico, nano, micro, tiny, small or medium: sets width, depth, heads, learning rate and
            batch.
        resume: Continue the run in that folder.
    """
    return run(config, Path(out or f"runs/{recipe}").expanduser(), resume)
