"""One trainer for every method: it goes through the stages of a plan.

Everything random is a pure function of (seed, stage, epoch), so a run that was stopped or killed
goes on to the same weights from its last checkpoint. Each stage starts with a new optimiser and a
short warm-up; the last one lets the learning rate fall to zero.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from adlm import device as devices
from adlm.config import Config, from_dict, to_dict
from adlm.errors import RunStopped, UserError
from adlm.locks import hold
from adlm.models import checkpoint, hub
from adlm.progress import Bar, console
from adlm.reasoning import network
from adlm.reasoning.forward import loss
from adlm.reasoning.methods.base import Stage
from adlm.reasoning.plan import Plan, Settings, describe
from adlm.reasoning.score import Solver, summary
from adlm.reasoning.sequence import Sequence, collate
from adlm.reasoning.vocab import items_vocab, pieces
from adlm.results import write_json
from adlm.train.log import Log
from adlm.train.optim import Optimizers
from adlm.train.run import check_folder
from adlm.train.signals import StopFlag

BUCKET = 16  # batches whose rows are sorted by length together
SLACK = 16  # tokens that a trace may be longer than the longest one seen
SAVE_SECONDS = 120.0


def train(plan: Plan, out: Path, resume: bool = False) -> int:
    """Train into the folder `out`; returns 0, or 128 + the number of the signal that stopped it."""
    plan.stages()  # settings are checked before anything is made
    check_folder(plan, out, resume)
    trainer = Trainer(plan, out)
    lock = hold(out).lock
    if found := checkpoint.steps(out):
        trainer.resume(found[-1])
    write_json(out / "config.json", to_dict(plan))
    checkpoint.sweep(out)
    with StopFlag() as stop:
        trainer.fit(stop)
    lock.release()
    if not trainer.finished:
        console.print(f"stopped at step {trainer.step} with a checkpoint; --resume goes on")
        return 128 + stop.raised
    console.print(f"done: {checkpoint.find(out)}", soft_wrap=True)
    return 0


class Trainer:
    """A run in progress: `within` steps of stage `at` are done."""

    def __init__(self, plan: Plan, out: Path):
        self.plan, self.out = plan, out
        s = plan.settings
        self.device = devices.pick(s.device)
        self.precision = devices.precision(s.precision, self.device)
        config, vocab, base = network.start(plan)  # first: the items may take a while
        self.items = plan.items("train", s.items)
        self.valid = plan.items("valid", s.valid)
        self.vocab = vocab or items_vocab(self.items.items)
        self.method, self.stages = plan.make_method(), plan.stages()
        self.pieces = [pieces(i, self.vocab) for i in self.items.items]
        sizes = [(r.prompt, len(r)) for stage in self.stages for r in self.rows(stage)]
        self.limit = max(whole - prompt for prompt, whole in sizes) + SLACK
        length = math.ceil(1.25 * max(prompt for prompt, _ in sizes)) + self.limit
        if base is not None and config.model.positions == "learned":
            length = min(length, max(config.data.length, *(whole for _, whole in sizes)))
        self.config: Config = network.lengthened(config, base, length, s.base)
        self.model = network.fresh(self.config, self.vocab, base, s.seed).to(self.device)
        self.at = self.within = self.step = 0
        self.seconds = 0.0
        self.batches: tuple[tuple[int, int], list[list[int]]] | None = None  # of an epoch
        self.optim = Optimizers(self.model, self.stage_optim(), self.precision)

    @property
    def finished(self) -> bool:
        return self.at == len(self.stages)

    def rows(self, stage: Stage) -> list[Sequence]:
        return [self.method.sequence(p, stage, self.vocab) for p in self.pieces]

    def stage_optim(self) -> Any:
        last = self.at >= len(self.stages) - 1
        return replace(self.config.optim, decay="linear" if last else "constant")

    def steps(self, stage: Stage) -> int:
        return -(-len(self.pieces) // self.plan.settings.batch) * stage.epochs

    def resume(self, path: Path) -> None:
        """Take up a checkpoint."""
        saved = checkpoint.load(path)
        tensors, state = saved.training()
        if saved.vocab.hash != self.vocab.hash or state["data"] != self.items.hash:
            raise UserError(f"the training items are not those of {path}: they have changed since")
        hub.fill(self.model, _part(tensors, "weights."), path)
        self.at, self.within, self.step = state["stage"], state["within"], state["step"]
        self.seconds = state["seconds"]
        self.optim = Optimizers(self.model, self.stage_optim(), self.precision)
        self.optim.load(_part(tensors, "optim."))

    def fit(self, stop: StopFlag) -> None:
        """Go through the stages to the end, or until told to stop; a checkpoint either way."""
        console.print(describe(self.plan, self.items, self.vocab), soft_wrap=True)
        total = sum(map(self.steps, self.stages))
        log = Log(self.out, self.step)
        began = saved = time.monotonic()
        with Bar("training", total, "steps", self.step) as bar:
            while not self.finished:
                stage = self.stages[self.at]
                rows = self.rows(stage)
                recent: list[float] = []
                while self.within < self.steps(stage):
                    recent.append(self.advance(rows, stage))
                    if self.step % 20 == 0:
                        mean = sum(recent) / len(recent)
                        bar.update(self.step, f"stage {self.at} loss {mean:.4f}")
                        log.write({"step": self.step, "stage": self.at, "loss": mean})
                        recent = []
                    told = stop.raised  # looked at once: a signal may come at any moment
                    if told or time.monotonic() - saved > SAVE_SECONDS:
                        self.save(time.monotonic() - began)
                        saved = time.monotonic()
                    if told:
                        log.close()
                        return
                self.close_stage(log)
        self.save(time.monotonic() - began)
        log.close()

    def close_stage(self, log: Log) -> None:
        """Solve valid items, and go on to the next stage with a new optimiser."""
        found = summary(self.solver().solve(self.valid.items))
        console.print(f"stage {self.at}: {found['accuracy']:.1%} of {found['items']} valid items")
        log.write({"step": self.step, "stage": self.at, "valid_accuracy": found["accuracy"]})
        self.at, self.within = self.at + 1, 0
        self.optim = Optimizers(self.model, self.stage_optim(), self.precision)

    def advance(self, rows: list[Sequence], stage: Stage) -> float:
        """One step; returns the mean loss of its labels in nats."""
        s = self.plan.settings
        epoch, place = divmod(self.within, -(-len(rows) // s.batch))
        if self.batches is None or place == 0 or self.batches[0] != (self.at, epoch):
            self.batches = (self.at, epoch), order(rows, s.batch, (s.seed, self.at, epoch))
        chosen = self.batches[1][place]
        batch = collate([rows[i] for i in chosen], self.vocab.pad).to(self.device)
        torch.manual_seed(hash((s.seed, self.step)) % 2**31)  # dropout
        self.model.train()
        with devices.autocast(self.precision, self.device):
            total, count = loss(self.model, batch)
        (total / count).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip or math.inf)
        mean = total.item() / count
        if not (math.isfinite(mean) and math.isfinite(float(norm))):
            raise RunStopped(f"the loss is not finite at step {self.step}: try a lower --lr")
        self.optim.step(self.within, self.steps(stage))
        self.within, self.step = self.within + 1, self.step + 1
        return mean

    def solver(self) -> Solver:
        """The model as it is now, with the slots of its stage."""
        return Solver(
            self.model.eval(),
            self.vocab,
            self.plan.make_task(),
            self.method,
            self.stages[min(self.at, len(self.stages) - 1)],
            self.config.data.length,
            self.limit,
            self.device,
        )

    def save(self, seconds: float) -> None:
        weights = self.model.state_dict()
        training = {f"weights.{k}": v for k, v in weights.items()}
        training |= {f"optim.{k}": v for k, v in self.optim.state().items()}
        state = {
            "step": self.step,
            "stage": self.at,
            "within": self.within,
            "seconds": self.seconds + seconds,
            "data": self.items.hash,
            "source": self.items.source,
            "limit": self.limit,
            "plan": to_dict(self.plan),
        }
        checkpoint.save(
            self.out, self.step, self.config, self.vocab, weights, training, state, keep=1
        )


def order(rows: list[Sequence], batch: int, seed: tuple[int, int, int]) -> list[list[int]]:
    """The batches of an epoch: random, but of rows of about the same length."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(rows)).tolist()
    made = []
    for low in range(0, len(rows), BUCKET * batch):
        part = sorted(shuffled[low : low + BUCKET * batch], key=lambda i: len(rows[i]))
        made += [part[i : i + batch] for i in range(0, len(part), batch)]
    return [made[i] for i in random.permutation(len(made))]


def load_solver(path: str, device: str = "auto") -> tuple[Solver, Plan, dict[str, Any]]:
    """A trained run or checkpoint, ready to solve; also its plan and what training left behind."""
    saved = checkpoint.load(path)
    _, state = saved.training()
    if "plan" not in state:
        raise UserError(f"{path} was not trained by `adlm reason train`")
    values = state["plan"]
    plan = Plan(values["task"], values["method"], from_dict(values["settings"], Settings))
    stages = plan.stages()
    picked = devices.pick(device)
    solver = Solver(
        hub.load_model(saved, picked),
        saved.vocab,
        plan.make_task(),
        plan.make_method(),
        stages[min(state["stage"], len(stages) - 1)],
        saved.config.data.length,
        state["limit"],
        picked,
    )
    return solver, plan, {**state, "checkpoint": saved}


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
