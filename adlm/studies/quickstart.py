"""The five laptop models at one budget: trained, scored on the test split, made to write.

Every model is a run of its own; what is finished is never done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from adlm import api
from adlm import device as devices
from adlm.config import Config, check, to_dict
from adlm.data.vocab import nominal_size
from adlm.eval.likelihood import LikelihoodSettings, measure
from adlm.locks import hold
from adlm.models import checkpoint
from adlm.models.cost import training_flops
from adlm.progress import Bar, console
from adlm.recipes import recipe
from adlm.results import read_json, write_json, write_text
from adlm.samplers import template
from adlm.studies import pool
from adlm.studies.first_page import page
from adlm.studies.pool import Job
from adlm.studies.quickstart_result import QuickstartResult, WrittenTexts
from adlm.train.log import read
from adlm.train.run import train
from adlm.viz.html import replay
from adlm.viz.plots import require

RECIPES = ("laptop-ar", "laptop-a2r", "laptop-mdlm", "laptop-adlm", "laptop-deep")
PROMPT = "My fellow citizens"
# what comes after a model's training, in steps of it
WRITING = 40  # with the start of the next one
SCORING = 60  # the whole test split; of `rows` rows nothing to speak of
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


FAST_STEPS, FAST_ROWS = 100, 200


@dataclass(frozen=True)
class QuickstartSettings:
    """How much is trained and scored, and where it goes.

    Attributes:
        out: Folder for the runs, results.json and report.html.
        fast: A tenth of the training, with worse models.
        steps: Train for so many steps instead of the recipes' own.
        rows: Score at most so many rows of the test split; 0 = all.
        workers: Models that are trained at a time; 0 = as many as there are pairs of cores, at
            least two where there are two cores.
    """

    out: str = "runs/quickstart"
    fast: bool = False
    steps: int = 0
    rows: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "rows", "workers"):
            check(getattr(self, name) >= 0, f"--{name}", getattr(self, name), "0 or more")

    @property
    def home(self) -> Path:
        return Path(self.out) / "fast" if self.fast else Path(self.out)


def run(settings: QuickstartSettings) -> QuickstartResult:
    """Train what is not trained, score and write; results.json and report.html are made last."""
    require()
    home = settings.home
    wanted = configs(settings.steps or (FAST_STEPS if settings.fast else 0))
    rows = settings.rows or (FAST_ROWS if settings.fast else 0)
    cores = os.cpu_count() or 1
    workers = settings.workers or min(len(wanted), max(min(2, cores), cores // 2))
    console.print(greeting(home, wanted, workers), soft_wrap=True)
    todo = jobs(home, wanted, rows)
    over = partial(percent, todo, workers)
    bar = Bar("quickstart", 100, "%", over(), foretell=True, settle=12)
    with hold(home), bar:
        look = progress(home, wanted, bar, over)
        pool.work(todo, workers, pool.shares(workers, 0), look)
        bar.update(100)
    result = gather(home, wanted)
    result.save(home / "results.json")
    write_text(home / "report.html", page(result, home))
    return result


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
    """Return a run for each model, those that take longest first."""
    order = sorted(wanted, key=lambda name: -wanted[name].model.anchor_blocks)
    return [Job(name, home / name, __name__, [wanted[name], rows]) for name in order]


def work(home: Path, config: Config, rows: int) -> int:
    """Train, score and let write one model; return the exit code."""
    if code := train(config, home, resume=True):
        return code
    saved = checkpoint.load(home)
    hash_now, scored = saved.hash, home / "eval" / "likelihood-sotu-test.json"
    if not current(scored, hash_now, rows):
        measure(saved, LikelihoodSettings(limit=rows, draws=1, precision="auto")).save(scored)
    if not current(home / "eval" / "texts.json", hash_now):
        write_json(home / "eval" / "texts.json", to_dict(texts(home, hash_now)))
    return 0


def current(path: Path, checkpoint_hash: str, rows: int | None = None) -> bool:
    """Is this result there already, of these weights and of as many rows?"""
    if not path.is_file():
        return False
    found = read_json(path)
    return found.get("checkpoint_hash") == checkpoint_hash and found.get("limit") == rows


def texts(home: Path, checkpoint_hash: str) -> WrittenTexts:
    """Return what the model writes: samples, fillings, and for diffusion the replay of two."""
    model = api.load(home)
    causal = model.network.causal
    samples = {
        way: model.generate(n=3, prompt=PROMPT, seed=1, **how) for way, how in WAYS[causal].items()
    }
    how = {"nucleus": 0.9} if causal else next(iter(WAYS[False].values()))
    page = None
    if not causal:
        free = template.after("", model.config.data.length, model.vocab)
        page = replay(model.record(free, api.settings(n=2, seed=2, **how))[1])
    return WrittenTexts(
        checkpoint_hash=checkpoint_hash,
        prompt=PROMPT,
        ways=WAYS[causal],
        samples=samples,
        holes=HOLES,
        fillings=model.infill(HOLES, n=3, seed=1, **how),
        replay=page,
    )


def percent(jobs: list[Job], workers: int) -> float:
    """Return how much of the time is over, were FLOPs time and each worker as fast as the others.

    The last model may train alone: what counts is when the last worker ends.
    """
    whole, left = [], []
    for job in jobs:
        config, rows = job.given
        assert isinstance(config, Config)
        flops = training_flops(config, nominal_size(config.data.tokenizer) or 0)
        steps, after = config.train.steps, WRITING + (0 if rows else SCORING)
        written = (job.folder / "eval" / "texts.json").is_file()
        whole.append(flops * (steps + after))
        left.append(0.0 if written else flops * (max(0, steps - steps_done(job.folder)) + after))
    return 100 * (1 - pool.makespan(left, workers) / pool.makespan(whole, workers))


def steps_done(run: Path) -> int:
    """Return how far a run under way is, from its metrics."""
    return max((int(r["step"]) for r in read(run / "metrics.jsonl")), default=0)


def greeting(home: Path, wanted: dict[str, Config], workers: int) -> str:
    """Say what is going to happen, or that it has happened."""
    have = {name: steps_done(home / name) for name in wanted}
    said = f"{len(wanted)} models, {workers} at a time, into {home}; Ctrl-C stops, the same command"
    said += " goes on"
    if all(have[n] >= config.train.steps for n, config in wanted.items()):
        said = f"the {len(wanted)} models in {home} are trained: nothing is trained again"
    longer = [n for n, config in wanted.items() if have[n] > config.train.steps]
    if longer:
        said += (
            f"\nkept as they are, with more steps: {', '.join(longer)} ({have[longer[0]]} steps)"
        )
    return said


def progress(
    home: Path, wanted: dict[str, Config], bar: Bar, percent: Callable[[], float]
) -> Callable[[], None]:
    """Return the function that the pool calls while it waits."""

    def look() -> None:
        at = {name: steps_done(home / name) for name in wanted}
        running = [
            f"{name.removeprefix('laptop-')} {step}/{wanted[name].train.steps}"
            for name, step in at.items()
            if 0 < step < wanted[name].train.steps
        ]
        bar.update(percent(), ", ".join(running))

    return look


def gather(home: Path, wanted: dict[str, Config]) -> QuickstartResult:
    """Return all models as one result: figures, curves, texts (the replay stays with its run)."""
    rows = {}
    for name in wanted:
        run = home / name
        records = read(run / "metrics.jsonl")
        seconds = [r["seconds"] for r in records if "seconds" in r]
        rows[name] = {
            **read_json(run / "eval" / "likelihood-sotu-test.json"),
            "training_seconds": seconds[-1] if seconds else None,
            "curve": [[r["tokens"], r["valid_nll"]] for r in records if "valid_nll" in r],
            **read_json(run / "eval" / "texts.json"),
        }
    device = devices.pick()
    result = QuickstartResult.from_json({"rows": rows}, home)
    return result.stamped(device, devices.precision("auto", device))
