"""`adlm train`: a run folder is made, resumed or refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adlm import device as devices
from adlm.config import Config, differences, to_dict
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError, need
from adlm.locks import hold
from adlm.models import checkpoint
from adlm.objectives.base import make_objective
from adlm.process.anchors import Anchors
from adlm.progress import console
from adlm.results import write_json
from adlm.train import distributed
from adlm.train.distributed import World
from adlm.train.log import Logger, TensorBoard
from adlm.train.loop import Trainer
from adlm.train.signals import StopFlag
from adlm.train.summary import beginning, ending
from adlm.values import read_object

# what may change when a run is resumed: none of it alters a step that is already done
FREE = {
    "train.steps",
    "train.log_every",
    "train.eval_every",
    "train.eval_rows",
    "train.save_every",
    "train.keep",
    "train.tensorboard",
    "train.compile",
    "train.device",
    "train.micro",
    "data.workers",
    "data.dir",
}


def train(config: Config, out: Path, resume: bool = False, logger: Logger | None = None) -> int:
    """Train into the folder `out`; returns 0, or 128 + the number of the signal that stopped it.

    `logger(record, out)` is called with every record of metrics.jsonl.
    """
    make_objective(config, byte_vocab())  # settings are checked before any data is read
    Anchors(config.anchor, byte_vocab())
    if config.train.tensorboard and find_spec("tensorboard") is None:
        raise need("tensorboard", "tensorboard", "train.tensorboard")
    device = devices.pick(config.train.device)
    world = distributed.start(device)
    try:
        code = work(config, out, resume, device, world, logger)
        world.wait()  # none leaves while another may still be talking to it
        return code
    finally:
        distributed.finish(world)


def work(
    config: Config, out: Path, resume: bool, device: str, world: World, logger: Logger | None
) -> int:
    """One process's part of a run."""
    if config.train.batch < world.size:
        raise UserError(
            f"train.batch {config.train.batch} must be at least {world.size}, one row a process"
        )
    for change in check_folder(config, out, resume):
        say(world.main, change)
    trainer = Trainer(config, out, world, device)
    lock = hold(out) if world.main else None
    if found := checkpoint.steps(out):
        trainer.resume(found[-1])
    elif (out / "config.json").is_file():
        say(world.main, f"{out} has no checkpoint yet: starting from step 0")
    world.wait()
    if lock:
        write_json(out / "config.json", to_dict(config))
        checkpoint.sweep(out)
    if trainer.step >= config.train.steps:
        say(world.main, f"{out} is done: {trainer.step} steps")
        return 0
    say(world.main, beginning(trainer))
    loggers: list[Logger] = [TensorBoard(out)] if config.train.tensorboard and world.main else []
    with StopFlag() as stop:
        trainer.fit(stop, [*loggers, logger] if logger else loggers)
    if trainer.step < config.train.steps:
        say(
            world.main,
            f"stopped at step {trainer.step} with a checkpoint; adlm train --resume {out} goes on",
        )
        return 128 + stop.raised
    say(world.main, ending(out, trainer.objective.exact))
    return 0


def check_folder(config: object, out: Path, resume: bool) -> list[str]:
    """See that the folder is free or this run's own; nothing is written.

    Returns a line for each setting that differs from the run's and may.
    """
    stored = out / "config.json"
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; it must be a folder")
    if stored.is_file():
        if not resume:
            raise UserError(
                f"{out} holds a run already: continue it with --resume, or take another --out"
            )
        old, new = to_dict(stored_config(out, type(config))), to_dict(config)
        changed = differences(old, new)
        if fixed := [name for name in changed if name not in FREE]:
            how = f" (adlm train --resume {out})" if isinstance(config, Config) else ""
            raise UserError(
                f"{out} holds a run with other settings ({', '.join(fixed[:4])}): "
                f"resume it with its own{how}, or take another --out"
            )
        return [f"{n} {field(old, n)} -> {field(new, n)}" for n in changed]
    if out.exists() and any(not p.name.startswith(".") for p in out.iterdir()):
        raise UserError(f"{out} is not empty and holds no run: take another --out")
    return []


def stored_config(out: Path, kind: type = Config) -> Any:
    """The configuration of the run in a folder; a setting that is not there yet has its default."""
    return read_object(out / "config.json", kind)


def field(values: dict[str, Any], name: str) -> Any:
    """A field by its dotted name."""
    for part in name.split("."):
        values = values[part]
    return values


def say(main: bool, text: str) -> None:
    if main:
        console.print(text, soft_wrap=True)
