"""The engine: it trains a workload step by step and knows nothing of what is learnt.

Everything random in a step is a pure function of (seed, step): the rows, their noise, dropout.
So a resumed run needs the weights, the optimiser's moments and the number of the step, no more,
and continues to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adlm import device as devices
from adlm.errors import RunStopped
from adlm.models import checkpoint, hub
from adlm.progress import Bar
from adlm.train import shard
from adlm.train.ema import Ema
from adlm.train.guard import LossGuard
from adlm.train.log import Log, Logger
from adlm.train.optim import Optimizers
from adlm.train.saver import Saver
from adlm.train.signals import StopFlag
from adlm.train.workload import Loss, Moment, Portion, RunState, StepStats, Workload
from adlm.values import read_plain
from adlm.world import World


class Scorer(nn.Module):
    """A workload's loss as a module, so that it can be wrapped for several processes."""

    def __init__(self, workload: Workload):
        super().__init__()
        self.model, self.loss = workload.model, workload.loss

    def forward(self, piece: Any, anchor: bool) -> Loss:
        return self.loss(piece, anchor)


class Engine:
    """A run in progress: `step` steps are done."""

    def __init__(self, workload: Workload, run: Path, world: World):
        self.workload, self.run, self.world = workload, run, world
        self.config, self.model = workload.config, workload.model
        self.precision = self.find_precision()
        self.scorer = shard.wrap(
            Scorer(workload), world, workload.device, self.mode, self.precision, workload.idle
        )
        self.saver = Saver(workload, run, world, shard.sharded(self.scorer))
        self.ema = Ema(self.model, self.config.optim.ema)
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.guard = LossGuard(workload.vocab.size, self.config.train.skip_broken)
        self.recent: list[StepStats] = []  # steps since the last line of metrics
        self.optim = self.optimizers()

    @property
    def finished(self) -> bool:
        return self.step >= self.workload.ends[-1]

    @property
    def mode(self) -> shard.Mode:
        return self.config.train.shard

    def find_precision(self) -> str:
        """Return the precision; one that was picked stays fp32 if the run began so, to the bit."""
        asked = self.config.train.precision
        begun = checkpoint.steps(self.run) if asked == "auto" else []
        state = read_plain(begun[-1] / "state.json") if begun else {}
        as_begun = isinstance(state, dict) and state.get("precision") == "fp32"
        return "fp32" if as_begun else devices.precision(asked, self.workload.device)

    def optimizers(self) -> Optimizers:
        """New optimisers for the phase of the next step."""
        at, _ = self.workload.place(self.step)
        phase = self.workload.phases[min(at, len(self.workload.phases) - 1)]
        return Optimizers(self.model, phase.optim, self.precision)

    def resume(self, path: Path) -> None:
        """Take up a checkpoint."""
        saved = checkpoint.load(path)
        state = self.workload.check(saved)
        self.step, self.tokens, self.seconds = state.step, state.tokens, state.seconds
        self.optim = self.optimizers()
        tensors = self.saver.read(saved, self.optim)
        hub.fill(self.model, _part(tensors, "weights."), path)
        self.ema.load(_part(tensors, "ema."), path)
        self.recent = list(state.recent)
        if self.workload.place(self.step)[1]:  # else a new phase begins with new moments
            self.optim.load(_part(tensors, "optim."), path)

    def fit(self, stop: StopFlag, loggers: Sequence[Logger] = ()) -> None:
        """Train to the last step, or until told to stop; a checkpoint is written either way."""
        workload, every, main = self.workload, self.workload.cadence, self.world.main
        log = Log(self.run, self.step, loggers) if main else None
        began = saved = time.monotonic()
        first, note, total = self.tokens, "", workload.ends[-1]
        shown = Bar("training", total, "steps", self.step, not main, True, work=every.work)
        with shown as bar:
            while not self.finished:
                if stats := self.advance():
                    self.recent.append(stats)
                elif log:
                    log.write({"step": self.step, "tokens": self.tokens, "left_out": 1})
                if self.guard.diverged(self.finished):
                    raise RunStopped(workload.stopped(self.guard.told(self.step), self.run))
                spent = time.monotonic() - began
                rate = (self.tokens - first) / spent
                now = Moment(self.step, self.tokens, self.seconds + spent, rate, self.precision)
                due = _due(self.step, every.log) or (self.finished and every.log_last)
                if due and self.recent:
                    record = workload.record(self.recent, now)
                    note = f"loss {record['loss']:.3f}{workload.said} {rate:,.0f} tok/s"
                    if log:
                        log.write(record)
                    self.recent = []
                bar.update(self.step, note)
                late = main and time.monotonic() - saved > every.save_seconds
                told, late = map(bool, self.world.sum(float(stop.raised), float(late)))
                closing = workload.place(self.step)[1] == 0
                if closing or _due(self.step, every.validate):
                    self.validate(now, log)
                if closing and not self.finished:
                    self.recent, self.optim = [], self.optimizers()
                due = (late or _due(self.step, every.save)) and not self.guard.far
                if self.finished or told or due:
                    self.save(now)
                    saved = time.monotonic()
                if told:
                    break
        self.saver.wait()
        if log:
            log.close()

    def advance(self) -> StepStats | None:
        """One optimiser step; nothing where its loss is not finite and it is left out."""
        workload = self.workload
        torch.manual_seed(workload.dropout_seed(self.step, self.world.rank))
        portion = workload.portion(self.step, self.world)
        nats, anchor = self.world.sum(*self.accumulate(portion))
        limit = self.config.optim.clip or math.inf
        norm = shard.clip(self.model.parameters(), limit)
        if not (math.isfinite(nats) and math.isfinite(norm)):
            if not self.guard.may_skip():
                raise RunStopped(workload.broken(self.step, self.run, self.world))
            self.model.zero_grad(set_to_none=True)
            self.step, self.tokens = self.step + 1, self.tokens + portion.count
            return None
        at, within = workload.place(self.step)
        factor = self.optim.step(within, workload.phases[at].steps)
        self.ema.update(self.step)
        self.step += 1
        self.tokens += portion.count
        self.guard.see(nats / portion.count)
        return StepStats(nats, anchor, portion.count, norm, factor)

    def accumulate(self, portion: Portion) -> tuple[float, float]:
        """Gradients of this process's pieces; returns their nats and anchor loss.

        The loss is nats per prediction of the *global* batch. Wrapping takes the mean over
        processes, so each one's loss is multiplied by their number to make it the sum. Where
        weights are gathered, a process with fewer pieces passes its last one again, for nothing.
        """
        self.model.train()
        gamma = self.workload.gamma(self.step / self.workload.ends[-1])
        nats = anchor = 0.0
        pieces, scale = portion.pieces, self.world.size / portion.count
        turns = shard.turns(self.scorer, self.world, len(pieces))
        for turn in range(turns):
            mine = turn < len(pieces)
            piece = pieces[turn] if mine else pieces[-1]
            shard.sync(self.scorer, turn == turns - 1, self.mode)
            with devices.autocast(self.precision, self.workload.device):
                found: Loss = self.scorer(piece, gamma > 0)
                total = found.bound + gamma * found.anchor if gamma else found.bound
            (total * (scale if mine else 0.0)).backward()
            if mine:
                nats += found.nats.item()
                anchor += found.anchor_nats.item()
        return nats, anchor

    def validate(self, now: Moment, log: Log | None) -> None:
        """Measure the model with the averaged weights, on all processes."""
        with self.ema.swapped(), shard.gathered(self.scorer):
            found = self.workload.validate(now, self.world)
        if log is not None:
            log.write(found)

    def save(self, now: Moment) -> None:
        """Write a checkpoint."""
        state = RunState(
            step=self.step,
            tokens=self.tokens,
            seconds=now.seconds,
            precision=self.precision,
            recent=self.recent,
        )
        self.saver.save(state, self.ema, self.optim)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
