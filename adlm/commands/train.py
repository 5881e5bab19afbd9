"""`adlm train`."""

from __future__ import annotations

from pathlib import Path

from adlm.config import Config
from adlm.errors import UserError
from adlm.models import history
from adlm.models.checkpoint import MANIFEST
from adlm.registry import names
from adlm.train import run
from adlm.train.log import find_logger


def train(
    recipe: str,
    config: Config,
    out: str | None = None,
    size: str | None = None,
    resume: bool = False,
    logger: str | None = None,
) -> int:
    """Train a recipe into a folder, with checkpoints and metrics; --resume RUN goes on.

    Args:
        recipe: Name of a recipe; 'adlm recipes' lists them. With --resume also the folder of a run,
            which knows its recipe and settings, or one of its checkpoints, from which it then goes
            on; its optimiser's rates may change (--optim.lr), which the run's changes.jsonl tells.
        out: Folder of the run; runs/RECIPE by default.
        size: pico, nano, micro, tiny, small or medium: sets width, depth, heads, learning rate and
            batch.
        resume: Continue the run in that folder.
        logger: A function of yours, module:function, that is called with every record of metrics
            and the run's folder; it is not stored.
    """
    hook = find_logger(logger) if logger else None
    start = Path(recipe).expanduser() if resume and history.in_run(recipe) else None
    home = history.run_of(start) if start else folder(recipe, out)
    return run.train(config, home, resume, hook, start, tune=recipe not in names("recipe"))


def folder(recipe: str, out: str | None) -> Path:
    """The folder of a recipe's run; a run that is named instead of a recipe is its own."""
    if recipe in names("recipe"):
        return Path(out or f"runs/{recipe}").expanduser()
    home = Path(recipe).expanduser()
    if out and Path(out).expanduser().resolve() != home.resolve():
        raise UserError(f"{recipe} is a run, which goes on in its own folder: leave out --out")
    if (home / MANIFEST).is_file():
        raise UserError(f"{recipe} is a checkpoint: add --resume to go on from it in its run")
    return home
