"""A run's folder is made, resumed or refused, and a workload is trained in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adlm import device as devices
from adlm.config import Config, differences, from_dict, to_dict
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError, need
from adlm.locks import hold
from adlm.models import checkpoint, history
from adlm.models.adapt import Base, open_base
from adlm.objectives.base import make_objective
from adlm.process.anchors import Anchors
from adlm.progress import console
from adlm.results import write_json
from adlm.train import distributed
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.train.log import Logger, TensorBoard
from adlm.train.signals import StopFlag
from adlm.train.workload import Workload
from adlm.values import read_plain, to_text

Changes = Mapping[str, tuple[object, object]]  # settings by their dotted names: old and new

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
    "train.skip_broken",
}
# and what may change besides where the run itself is named: it goes another way from there on
TUNED = {
    "optim.lr",
    "optim.muon_lr",
    "optim.betas",
    "optim.weight_decay",
    "optim.warmup",
    "optim.decay",
    "optim.decay_share",
    "optim.clip",
    "train.precision",
}


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    logger: Logger | None = None,
    start: Path | None = None,
    tune: bool = False,
) -> int:
    """Train a language model into the folder `out`.

    `logger(record, out)` is called with every record of metrics.jsonl. A run goes on from its
    newest checkpoint, or from `start`; with `tune`, also with another optimiser setting (TUNED).
    Returns 0, or 128 + the number of the signal that stopped it.
    """
    make_objective(config, byte_vocab())  # settings are checked before any data is read
    Anchors(config.anchor, byte_vocab())
    if config.train.tensorboard and find_spec("tensorboard") is None:
        raise need("tensorboard", "tensorboard", "train.tensorboard")
    device = devices.pick(config.train.device)
    make_workload = partial(LanguageModelling, config, device, find_base(config, out))
    again, loggers = f"adlm train --resume {out}", [logger] if logger else []
    changed = check_folder(config, out, resume, tune)
    return launch(make_workload, config, out, changed, device, again, loggers, start)


def find_base(config: Config, out: Path) -> Base | None:
    """Open what a run starts from; a run that has checkpoints needs its base no more."""
    if config.base.name is None:
        return None
    found = checkpoint.steps(out)
    return open_base(str(found[-1]) if found else config.base.name)


def launch(
    make_workload: Callable[[], Workload],
    settings: object,
    out: Path,
    changed: Changes,
    device: str,
    again: str,
    loggers: Sequence[Logger] = (),
    start: Path | None = None,
) -> int:
    """Train a workload in one process, or in each of those that torchrun has started.

    `settings` are stored with the run, `changed` is how they differ from what is stored (see
    `check_folder`); `again` are the words that resume it.
    """
    world = distributed.start(device)
    try:
        for name, (old, new) in changed.items():
            say(world.main, f"{name} {old} -> {new}")
        workload = make_workload()
        batch = workload.config.train.batch
        if batch < world.size:
            raise UserError(f"train.batch {batch} must be at least {world.size}, one row a process")
        code = work(Engine(workload, out, world), settings, changed, again, loggers, start)
        world.wait()  # none leaves while another may still be talking to it
        return code
    finally:
        distributed.finish(world)


def work(
    engine: Engine,
    settings: object,
    changed: Changes,
    again: str,
    loggers: Sequence[Logger],
    start: Path | None = None,
) -> int:
    """Do one process's part of a run."""
    out, world, workload = engine.run, engine.world, engine.workload
    lock = hold(out) if world.main else None
    if start or checkpoint.steps(out):
        engine.resume(start or checkpoint.steps(out)[-1])
    elif (out / "config.json").is_file():
        say(world.main, f"{out} has no checkpoint yet: starting from step 0")
    world.wait()
    if lock:
        note_changes(out, engine.step, changed)
        for aside in history.set_aside(out, engine.step):
            say(True, f"a later checkpoint is kept as {aside}")
        write_json(out / "config.json", to_dict(settings))
        history.sweep(out)
    if engine.finished:
        say(world.main, f"{out} is done: {engine.step} steps")
        return 0
    say(world.main, workload.beginning(engine.step, engine.precision, world))
    board = [TensorBoard(out)] if workload.config.train.tensorboard and world.main else []
    with StopFlag() as stop:
        engine.fit(stop, [*board, *loggers])
    if not engine.finished:
        say(world.main, f"stopped at step {engine.step} with a checkpoint; {again} goes on")
        return 128 + stop.raised
    say(world.main, workload.ending(out))
    return 0


def check_folder(config: object, out: Path, resume: bool, tune: bool = False) -> Changes:
    """See that the folder is free or this run's own; nothing is written.

    Returns the settings that differ from the run's and may, each with both values.
    """
    stored = out / "config.json"
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; it must be a folder")
    if stored.is_file():
        if not resume:
            raise UserError(
                f"{out} holds a run already: continue it with --resume, or take another --out"
            )
        changed = differences(stored_config(out, type(config)), config)
        if fixed := [name for name in changed if name not in (FREE | TUNED if tune else FREE)]:
            own = f" (adlm train --resume {out}, which may change optim.lr and its like)"
            how = own if isinstance(config, Config) else ""
            raise UserError(
                f"{out} holds a run with other settings ({', '.join(fixed[:4])}): "
                f"resume it with its own{how}, or take another --out"
            )
        return changed
    if out.exists() and any(not p.name.startswith(".") for p in out.iterdir()):
        raise UserError(f"{out} is not empty and holds no run: take another --out")
    return {}


def note_changes(out: Path, step: int, changed: Changes) -> None:
    """Add what the run does otherwise from a step on to its changes.jsonl."""
    tuned = {name: list(both) for name, both in changed.items() if name in TUNED}
    if tuned:
        with (out / "changes.jsonl").open("a", encoding="utf-8") as file:
            file.write(to_text({"step": step, "changed": tuned}) + "\n")


def stored_config(out: Path, kind: type = Config) -> Any:
    """Read the configuration of a run; a setting that is not there yet has its default."""
    return from_dict(read_plain(out / "config.json"), kind, out / "config.json")


def say(main: bool, text: str) -> None:
    if main:
        console.print(text, soft_wrap=True)
