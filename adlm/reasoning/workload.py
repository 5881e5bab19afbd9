"""Reasoning as a workload: the rows of a method's stages, one phase of the engine for each.

Everything random is a pure function of (seed, stage, epoch), so a run that was stopped or killed
goes on to the same weights from its last checkpoint. Each stage starts with a new optimiser and a
short warm-up; the last one lets the learning rate fall to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from adlm.data.counts import CorpusCounts
from adlm.data.loader import share
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.models.denoiser import Denoiser
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.base import make_objective
from adlm.process.anchors import reads_table
from adlm.progress import console
from adlm.reasoning import network
from adlm.reasoning.forward import losses
from adlm.reasoning.plan import Plan, describe
from adlm.reasoning.score import Solver, tally
from adlm.reasoning.sequence import ReasoningRows, Row, collate
from adlm.reasoning.vocab import items_vocab, pieces
from adlm.train.distributed import World
from adlm.train.log import Metrics
from adlm.train.workload import (
    Cadence,
    Loss,
    Moment,
    Phase,
    Portion,
    RunState,
    StepStats,
    Workload,
)
from adlm.values import check_sizes

BUCKET = 16  # batches whose rows are sorted by length together
SLACK = 16  # tokens that a trace may be longer than the longest one seen


@dataclass(frozen=True, kw_only=True)
class ReasoningState(RunState):
    """The same of a run that learns to reason, and what solving needs of it."""

    stage: int
    within: int  # steps of the stage that are done
    source: str  # of the training items
    limit: int  # tokens that a trace may have
    plan: Plan

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "", 0, stage=len(self.plan.stages()), within=10**12, limit=10**9)


class Reasoning(Workload):
    """A task learnt by a method."""

    model: Denoiser
    cadence = Cadence(log=20, save_seconds=120.0, log_last=False)

    def __init__(self, plan: Plan, device: str):
        self.plan, self.device = plan, device
        s = plan.settings
        config, vocab, base = network.start(plan)  # first: the items may take a while
        self.items = plan.items("train", s.items)
        self.valid = plan.items("valid", s.valid)
        self.vocab = vocab or items_vocab(self.items.items)
        self.method, self.stages = plan.make_method(), plan.stages()
        self.pieces = [pieces(i, self.vocab) for i in self.items.items]
        sizes = [(r.prompt, len(r)) for at in range(len(self.stages)) for r in self._rows(at)]
        self.limit = max(whole - prompt for prompt, whole in sizes) + SLACK
        length = math.ceil(1.25 * max(prompt for prompt, _ in sizes)) + self.limit
        if base is not None and config.model.positions == "learned":
            length = min(length, max(config.data.length, *(whole for _, whole in sizes)))
        self.config = network.lengthened(config, base, length, s.base)
        self.model = network.fresh(self.config, self.vocab, base, s.seed).to(device)
        if self.config.model.anchor_blocks and reads_table(self.config.anchor.rule):
            self.counts = counted([r.ids for r in self._rows(0)], self.vocab.size)
        self.objective = make_objective(self.config, self.vocab, self.counts)
        self.idle = self.config.model.bridge == "hidden"
        self.epoch_steps = -(-len(self.pieces) // s.batch)
        level, falling = (replace(self.config.optim, decay=d) for d in ("constant", "linear"))
        steps = [self.epoch_steps * stage.epochs for stage in self.stages]
        self.phases = [*(Phase(n, level) for n in steps[:-1]), Phase(steps[-1], falling)]
        self.rows = lru_cache(maxsize=1)(self._rows)
        self.batches = lru_cache(maxsize=1)(self._batches)

    def _rows(self, at: int) -> list[Row]:
        """Return all items as they are in a stage."""
        return [self.method.row(p, self.stages[at], self.vocab) for p in self.pieces]

    def _batches(self, at: int, epoch: int) -> list[list[int]]:
        s = self.plan.settings
        return order([len(r) for r in self.rows(at)], s.batch, (s.seed, at, epoch))

    def dropout_seed(self, step: int, rank: int) -> int:
        return hash((self.plan.settings.seed, step)) % 2**31 + 2**31 * rank

    def portion(self, step: int, world: World) -> Portion:
        """Return this process's rows; where a short batch leaves none, one row without a label."""
        at, within = self.place(step)
        epoch, place = divmod(within, self.epoch_steps)
        batch = [self.rows(at)[i] for i in self.batches(at, epoch)[place]]
        mine = batch[share(len(batch), world.rank, world.size)] or [batch[0].unlabelled()]
        return Portion([collate(mine, self.vocab.pad)], sum(row.labelled for row in batch))

    def gamma(self, progress: float) -> float:
        return self.objective.gamma(progress)

    def loss(self, piece: ReasoningRows, anchor: bool) -> Loss:
        a2r = self.objective if isinstance(self.objective, AnchoredObjective) else None
        bound, extra = losses(self.model, piece.to(self.device), a2r if anchor else None)
        return Loss(bound, extra, bound.detach(), extra.detach())

    def stage(self, step: int) -> int:
        """Return the stage of the last of so many steps."""
        return self.place(step - 1)[0]

    def validate(self, now: Moment) -> Metrics:
        """Solve valid items."""
        at = self.stage(now.step)
        found = tally(self.solver(at).solve(self.valid.items))
        console.print(f"stage {at}: {found.accuracy:.1%} of {found.items} valid items")
        return {"step": now.step, "stage": at, "valid_accuracy": found.accuracy}

    def solver(self, at: int) -> Solver:
        """The model as it is now, with the slots of a stage."""
        return Solver(
            self.model.eval(),
            self.vocab,
            self.plan.make_task(),
            self.method,
            self.stages[at],
            self.config.data.length,
            self.limit,
            self.device,
        )

    def record(self, steps: Sequence[StepStats], now: Moment) -> Metrics:
        """Return nats a label, the mean over the steps; the anchor loss where there is one."""
        loss = sum(s.nats / s.tokens for s in steps) / len(steps)
        at = self.stage(now.step)
        self.said = f" stage {at}"
        found: dict[str, float] = {"step": now.step, "stage": at, "loss": loss}
        if any(s.anchor for s in steps):
            found["anchor_loss"] = sum(s.anchor / s.tokens for s in steps) / len(steps)
        return found

    def broken(self, step: int, run: Path, world: World) -> str:
        return self.stopped(f"the loss is not finite at step {step}", run)

    def stopped(self, why: str, run: Path) -> str:
        return f"{why}; start anew with a lower --lr: another --out, or without {run}"

    def state(self, now: RunState) -> ReasoningState:
        at, within = self.place(now.step)
        return ReasoningState(
            **vars(replace(now, data=self.items.hash)),
            stage=at,
            within=within,
            source=self.items.source,
            limit=self.limit,
            plan=self.plan,
        )

    def check(self, saved: Checkpoint) -> RunState:
        state = saved.state(ReasoningState)
        if saved.vocab.hash != self.vocab.hash or state.data != self.items.hash:
            raise UserError(
                f"the training items are not those of {saved.path}: they have changed since"
            )
        return state

    def beginning(self, step: int, precision: str, world: World) -> str:
        return describe(self.plan, self.items, self.vocab)

    def ending(self, run: Path) -> str:
        return f"done: {checkpoint.find(run)}"


def counted(rows: list[list[int]], vocab_size: int) -> CorpusCounts:
    """Return how often tokens occur in rows of tokens."""
    every = [t for row in rows for t in row], [t for row in rows for t in set(row)]
    tokens, having = (torch.from_numpy(np.bincount(e, minlength=vocab_size)) for e in every)
    total = torch.tensor(len(rows), dtype=torch.float64)
    return CorpusCounts(tokens.double(), having.double(), total)


def order(lengths: list[int], batch: int, seed: tuple[int, int, int]) -> list[list[int]]:
    """Return the batches of an epoch: random, but of rows of about the same length."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(lengths)).tolist()
    made = []
    for low in range(0, len(lengths), BUCKET * batch):
        part = sorted(shuffled[low : low + BUCKET * batch], key=lambda i: lengths[i])
        made += [part[i : i + batch] for i in range(0, len(part), batch)]
    return [made[i] for i in random.permutation(len(made))]
