"""The training loop.

Everything random in a step is a pure function of (seed, step): the rows, their noise, dropout.
So a resumed run needs the weights, the optimiser's moments and the number of the step, no more,
and continues to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from adlm import device as devices
from adlm.config import Config
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.loader import Order, share
from adlm.data.vocab import Vocab
from adlm.errors import RunStopped, UserError
from adlm.models import checkpoint, hub
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.nn.transformer import Trunk
from adlm.objectives.base import Objective, make_objective
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.process.anchors import reads_table
from adlm.progress import Bar
from adlm.train.distributed import World
from adlm.train.ema import Ema
from adlm.train.log import Log, Logger
from adlm.train.optim import Optimizers
from adlm.train.signals import StopFlag
from adlm.types import Batch, Noise


@dataclass(frozen=True)
class Step:
    """What one optimiser step tells."""

    nats: float  # loss of the global batch without the anchor's: NLL, NELBO or training's own
    anchor: float  # its anchor loss, before gamma
    tokens: int
    grad_norm: float
    lr_factor: float


class Scorer(nn.Module):
    """The objective as a module, so that DDP can wrap it."""

    def __init__(self, model: Denoiser, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch, noise: Noise | None, gamma: float) -> list[Tensor]:
        """What is minimised, the NLL or NELBO, and the anchor loss: sums over the batch."""
        score = self.objective.score(self.model, batch, noise, anchor=gamma > 0)
        if score.anchor is None or score.anchor_rows is None:
            return [score.bound, score.rows.sum(), score.rows.new_zeros(())]
        return [score.bound + gamma * score.anchor, score.rows.sum(), score.anchor_rows.sum()]


class Trainer:
    """A run in progress: `step` steps are done."""

    def __init__(self, config: Config, run: Path, world: World, device: str):
        self.config, self.run, self.world, self.device = config, run, world, device
        self.precision = devices.precision(config.train.precision, device)
        self.vocab: Vocab = open_vocab(config.data)
        self.rows = open_rows(config.data, "train", self.vocab)
        self.valid = open_rows(config.data, "valid", self.vocab)
        self.order = Order(len(self.rows), config.train.batch, config.train.seed)
        torch.manual_seed(config.train.seed)
        self.model = build_model(config, self.vocab.size).to(device)
        self.counts = None
        if config.model.anchor_blocks and reads_table(config.anchor.rule):
            self.counts = CorpusCounts.count(self.rows, self.vocab.size)
        self.objective = make_objective(config, self.vocab, self.counts)
        self.bound = evaluator(config, self.vocab)  # what is reported
        if config.train.compile:
            for module in self.model.modules():
                if isinstance(module, Trunk):
                    module.compile()
        idle = config.model.bridge == "hidden"  # its anchor head rests while gamma is 0
        self.scorer = world.wrap(Scorer(self.model, self.objective), device, idle)
        self.optim = Optimizers(self.model, config.optim, self.precision)
        self.ema = Ema(self.model, config.optim.ema)
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.recent: list[Step] = []  # steps since the last line of metrics
        self.said = ""  # the last validation, for the progress bar

    def resume(self, path: Path) -> None:
        """Take up a checkpoint."""
        saved = checkpoint.load(path)
        tensors, state = saved.training()
        if saved.vocab.hash != self.vocab.hash:
            raise UserError(f"the tokenizer is not the one of {path}: have the data changed?")
        if state.get("data") != self.rows.store.key:
            raise UserError(f"the training data are not those of {path}: they have changed since")
        hub.fill(self.model, _part(tensors, "weights."), path)
        if self.config.train.precision == "auto" and state.get("precision") == "fp32":
            self.precision = "fp32"  # as it began, so that the bits are the same
            self.optim = Optimizers(self.model, self.config.optim, self.precision)
        self.optim.load(_part(tensors, "optim."))
        self.ema.load(_part(tensors, "ema."))
        self.step, self.tokens = state["step"], state["tokens"]
        self.seconds = state["seconds"]
        self.recent = [Step(**values) for values in state.get("recent", [])]

    def fit(self, stop: StopFlag, loggers: Sequence[Logger] = ()) -> None:
        """Train to the last step, or until told to stop; a checkpoint is written either way."""
        cfg = self.config.train
        log = Log(self.run, self.step, loggers) if self.world.main else None
        began, first_token, note = time.monotonic(), self.tokens, ""
        quiet = not self.world.main
        with Bar("training", cfg.steps, "steps", self.step, quiet, foretell=True) as bar:
            while self.step < cfg.steps:
                self.recent.append(self.advance())
                seconds = self.seconds + time.monotonic() - began
                if self.step % cfg.log_every == 0 or self.step == cfg.steps:
                    rate = (self.tokens - first_token) / (time.monotonic() - began)
                    record = {"step": self.step, "tokens": self.tokens, **averages(self.recent)}
                    note = f"loss {record['loss']:.3f}{self.said} {rate:,.0f} tok/s"
                    if log:
                        log.write({**record, "tokens_per_s": rate, "seconds": seconds})
                    self.recent = []
                bar.update(self.step, note)
                stopping = bool(self.world.sum(float(stop.raised))[0])
                done = self.step == cfg.steps
                if _due(self.step, cfg.eval_every) or done:
                    self.evaluate(log)
                if _due(self.step, cfg.save_every) or done or stopping:
                    self.save(seconds)
                if stopping:
                    break
        if log:
            log.close()

    def advance(self) -> Step:
        """One optimiser step."""
        cfg = self.config.train
        torch.manual_seed((cfg.seed * 1_000_003 + self.step) * 4099 + self.world.rank)  # dropout
        generator = torch.Generator().manual_seed(cfg.seed * 1_000_003 + self.step)
        done = self.step / cfg.steps
        noise = self.objective.noise_at(done, cfg.batch, self.rows.length, generator)
        index = self.order.step(self.step)
        tokens = int(self.rows.count[index].sum())
        mine = share(cfg.batch, self.world.rank, self.world.size)
        batch = self.rows.batch(index[mine])
        sums = self.accumulate(batch, None if noise is None else noise[mine], tokens)
        nats, anchor = self.world.sum(*sums)
        norm = self.clip()
        if not (math.isfinite(nats) and math.isfinite(norm)):
            self.fail(batch, noise, mine)
        factor = self.optim.step(self.step, cfg.steps)
        self.ema.update(self.step)
        self.step += 1
        self.tokens += tokens
        return Step(nats, anchor, tokens, norm, factor)

    def accumulate(self, batch: Batch, noise: Noise | None, tokens: int) -> tuple[float, float]:
        """Gradients of this process's rows, in pieces that fit; returns nats and anchor loss.

        The loss is nats per token of the *global* batch. DDP takes the mean over processes, so
        each one's loss is multiplied by their number to make it the sum.
        """
        self.model.train()
        micro = self.config.train.micro or max(1, len(batch))
        starts = range(0, max(1, len(batch)), micro)
        gamma = self.objective.gamma(self.step / self.config.train.steps)
        nats = anchor = 0.0
        for low in starts:
            part = slice(low, low + micro)
            piece = batch[part].to(self.device)
            hidden = None if noise is None else noise[part].to(self.device)
            if self.world.size > 1:
                self.scorer.require_backward_grad_sync = low == starts[-1]  # type: ignore[assignment]
            with devices.autocast(self.precision, self.device):
                total, plain, extra = self.scorer(piece, hidden, gamma)
            (total * (self.world.size / tokens)).backward()
            nats += plain.item()
            anchor += extra.item()
        return nats, anchor

    def clip(self) -> float:
        limit = self.config.optim.clip or math.inf
        return float(nn.utils.clip_grad_norm_(self.model.parameters(), limit))

    def evaluate(self, log: Log | None) -> None:
        """Score rows of the valid split with the averaged weights, on one process."""
        if log is not None:
            cfg = self.config.train
            with self.ema.swapped():
                found = score(
                    self.model,
                    self.bound,
                    self.valid,
                    spread(len(self.valid), cfg.eval_rows),
                    device=self.device,
                    precision=self.precision,
                    quiet=True,
                )
            if not math.isfinite(found.nll):
                raise RunStopped(f"the validation loss is not finite at step {self.step}")
            self.said = f" valid ppl {found.ppl:.1f}"
            log.write(
                {
                    "step": self.step,
                    "tokens": self.tokens,
                    "valid_nll": found.nll,
                    "valid_ppl": found.ppl,
                    **({} if math.isnan(found.se) else {"valid_se": found.se}),  # over documents
                }
            )
        self.world.wait()

    def save(self, seconds: float) -> None:
        """Write a checkpoint, on one process."""
        if self.world.main:
            with self.ema.swapped():
                averaged = {k: v.clone() for k, v in self.model.state_dict().items()}
            training = {f"weights.{k}": v for k, v in self.model.state_dict().items()}
            training |= {f"optim.{k}": v for k, v in self.optim.state().items()}
            training |= {f"ema.{k}": v for k, v in self.ema.state().items()}
            state = {
                "step": self.step,
                "tokens": self.tokens,
                "seconds": seconds,
                "data": self.rows.store.key,
                "precision": self.precision,
                "recent": [vars(step) for step in self.recent],
            }
            lengths = Lengths.of(self.rows.store, self.config.data.length)
            checkpoint.save(
                self.run,
                self.step,
                self.config,
                self.vocab,
                averaged,
                training,
                state,
                self.config.train.keep,
                lengths,
                self.counts,
            )
        self.world.wait()

    def fail(self, batch: Batch, noise: Noise | None, mine: slice) -> None:
        """Keep the batch that broke the loss, and say what to try."""
        path = self.run / f"bad-step-{self.step}-rank-{self.world.rank}.safetensors"
        tensors = {"x": batch.x, "valid": batch.valid}
        if noise is not None:
            tensors |= {"t": noise[mine].t.contiguous(), "u": noise[mine].u.contiguous()}
        save_file(tensors, path)
        raise RunStopped(
            f"the loss is not finite at step {self.step}; the batch is in {path}. Try a lower "
            "optim.lr or optim.muon_lr, a longer optim.warmup, or train.precision fp32; "
            "checkpoints so far are kept"
        )


def averages(steps: list[Step]) -> dict[str, float]:
    """Nats a token over some steps; the anchor loss where there is one."""
    tokens = sum(s.tokens for s in steps)
    record = {"loss": sum(s.nats for s in steps) / tokens}
    if anchor := sum(s.anchor for s in steps):
        record["anchor_loss"] = anchor / tokens
    return {**record, "lr_factor": steps[-1].lr_factor, "grad_norm": steps[-1].grad_norm}


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
