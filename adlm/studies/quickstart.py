"""The five laptop models at one budget: trained, scored on the test split, made to write.

Every model is a run of its own; what is finished is never done again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from adlm import api
from adlm import device as devices
from adlm.commands.likelihood import start as likelihood
from adlm.config import Config, from_dict, to_dict
from adlm.data.vocab import nominal_size
from adlm.models import checkpoint
from adlm.models.cost import training_flops
from adlm.recipes import recipe
from adlm.results import stamped, write_json
from adlm.samplers import template
from adlm.studies.pool import Job
from adlm.train.log import read
from adlm.train.run import train
from adlm.viz.html import replay

RECIPES = ("laptop-ar", "laptop-a2r", "laptop-mdlm", "laptop-adlm", "laptop-deep")
PROMPT = "My fellow citizens"
TAIL = 0.08  # scoring and writing, as a share of a model's time
HOLES = "The [MASK] of the [MASK] is the duty of the Congress of the United States [MASK:6] ."
# how each kind of model writes best among what was tried; the first is shown first
WAYS: dict[bool, dict[str, dict[str, Any]]] = {
    True: {"left to right, nucleus 0.9": {"nucleus": 0.9}},
    False: {
        "remasking (remdm-loop), nucleus 0.9": {
            "sampler": "remdm-loop",
            "steps": 192,
            "nucleus": 0.9,
        },
        "first-hitting, nucleus 0.8": {"sampler": "first-hitting", "nucleus": 0.8},
    },
}


def configs(steps: int = 0) -> dict[str, Config]:
    """The recipes, at another number of steps where one is given."""
    made = {name: recipe(name) for name in RECIPES}
    if not steps:
        return made
    every = max(1, steps // 8)
    return {
        name: replace(c, train=replace(c.train, steps=steps, eval_every=every))
        for name, c in made.items()
    }


def jobs(home: Path, wanted: dict[str, Config], rows: int) -> list[Job]:
    """A run for each model, those that take longest first."""
    order = sorted(wanted, key=lambda name: -wanted[name].model.anchor_blocks)
    return [Job(name, home / name, __name__, [to_dict(wanted[name]), rows]) for name in order]


def work(folder: str, values: dict[str, Any], rows: int) -> int:
    """One model in a process of its own; returns the exit code."""
    home, config = Path(folder), from_dict(values)
    if code := train(config, home, resume=True):
        return code
    hash_now = checkpoint.load(home).hash
    if not current(home / "eval" / "likelihood-sotu-test.json", hash_now, rows):
        out = str(home / "eval" / "likelihood-sotu-test.json")
        likelihood(str(home), out=out, limit=rows, draws=1, precision="auto")
    if not current(home / "eval" / "texts.json", hash_now):
        write_json(home / "eval" / "texts.json", {"checkpoint_hash": hash_now, **texts(home)})
    return 0


def current(path: Path, checkpoint_hash: str, rows: int | None = None) -> bool:
    """Is this result there already, of these weights and of as many rows?"""
    if not path.is_file():
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    return found.get("checkpoint_hash") == checkpoint_hash and found.get("limit") == rows


def texts(home: Path) -> dict[str, Any]:
    """What the model writes: samples, fillings, and for diffusion the replay of two."""
    model = api.load(home)
    causal = model.network.causal
    samples = {
        way: model.generate(n=3, prompt=PROMPT, seed=1, **how) for way, how in WAYS[causal].items()
    }
    made: dict[str, Any] = {"prompt": PROMPT, "ways": WAYS[causal], "samples": samples}
    if not causal:
        how = next(iter(WAYS[False].values()))
        made |= {"holes": HOLES, "fillings": model.infill(HOLES, n=3, seed=1, **how)}
        free = template.after("", model.config.data.length, model.vocab)
        _, trace = model.record(free, api.settings(n=2, seed=2, **how))
        made["replay"] = replay(trace)
    else:
        made |= {"holes": HOLES, "fillings": model.infill(HOLES, n=3, seed=1, nucleus=0.9)}
    return made


def percent(home: Path, wanted: dict[str, Config]) -> float:
    """How much of the work is done: a model's counts by the FLOPs of its training."""
    done = total = 0.0
    for name, config in wanted.items():
        size = nominal_size(config.data.tokenizer) or 0
        work = training_flops(config, size) * config.train.steps
        trained = min(1.0, steps_done(home / name) / config.train.steps)
        written = (home / name / "eval" / "texts.json").is_file()
        done += work * ((1 - TAIL) * trained + TAIL * written)
        total += work
    return 100 * done / total


def steps_done(run: Path) -> int:
    """How far a run under way is, from its metrics."""
    return max((r["step"] for r in read(run / "metrics.jsonl")), default=0)


def gather(home: Path, wanted: dict[str, Config]) -> dict[str, Any]:
    """All models as one result: figures, curves, texts (the replay stays with its run)."""
    rows = {}
    for name in wanted:
        run = home / name
        found = json.loads((run / "eval" / "likelihood-sotu-test.json").read_text(encoding="utf-8"))
        curve = [r for r in read(run / "metrics.jsonl") if "valid_nll" in r]
        seconds = [r["seconds"] for r in read(run / "metrics.jsonl") if "seconds" in r]
        written = json.loads((run / "eval" / "texts.json").read_text(encoding="utf-8"))
        written.pop("replay", None)
        rows[name] = {
            **found,
            "training_seconds": seconds[-1] if seconds else None,
            "curve": [[r["tokens"], r["valid_nll"]] for r in curve],
            **written,
        }
    device = devices.pick()
    precision = devices.precision("auto", device)
    return stamped({"command": "quickstart", "rows": rows}, device, precision)
