"""Language modelling as a workload: rows of a corpus, an objective and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from adlm.config import Config
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.lengths import Lengths
from adlm.data.loader import Order, share
from adlm.data.vocab import Vocab
from adlm.errors import RunStopped, UserError
from adlm.models.anchored import Anchored
from adlm.models.checkpoint import Checkpoint
from adlm.models.sizes import build
from adlm.nn.transformer import Trunk
from adlm.objectives.base import make
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.process.anchors import Table
from adlm.train import summary
from adlm.train.distributed import World
from adlm.train.workload import Besides, Cadence, Loss, Moment, Phase, Portion, StepStats, Workload
from adlm.types import Batch, Noise

Piece = tuple[Batch, Noise | None]


class LanguageModelling(Workload):
    """A model of text by an objective."""

    def __init__(self, config: Config, device: str):
        cfg = config.train
        self.config, self.device = config, device
        self.phases = [Phase(cfg.steps, config.optim)]
        self.cadence = Cadence(cfg.log_every, cfg.eval_every, cfg.save_every, keep=cfg.keep)
        self.idle = config.model.bridge == "hidden"  # its anchor head rests while gamma is 0
        self.vocab: Vocab = open_vocab(config.data)
        self.rows = open_rows(config.data, "train", self.vocab)
        self.valid = open_rows(config.data, "valid", self.vocab)
        self.order = Order(len(self.rows), cfg.batch, cfg.seed)
        torch.manual_seed(cfg.seed)
        self.model = build(config, self.vocab.size).to(device)
        self.objective = make(config, self.vocab)
        self.bound = evaluator(config, self.vocab)  # what is reported
        if isinstance(self.model, Anchored) and self.model.table() is not None:
            self.model.set_table(Table.count(self.rows, self.vocab.size))
        if cfg.compile:
            for module in self.model.modules():
                if isinstance(module, Trunk):
                    module.compile()
        self.said = ""  # the last validation, for the progress bar

    def dropout_seed(self, step: int, rank: int) -> int:
        return (self.config.train.seed * 1_000_003 + step) * 4099 + rank

    def portion(self, step: int, world: World) -> Portion:
        """This process's rows and their part of the global batch's noise, `micro` rows a piece."""
        cfg = self.config.train
        generator = torch.Generator().manual_seed(cfg.seed * 1_000_003 + step)
        noise = self.objective.noise(cfg.batch, self.rows.length, generator)
        index = self.order.step(step)
        mine = share(cfg.batch, world.rank, world.size)
        batch, noise = self.rows.batch(index[mine]), None if noise is None else noise[mine]
        size = cfg.micro or len(batch)
        parts = [slice(low, low + size) for low in range(0, len(batch), size)]
        pieces = [(batch[p], None if noise is None else noise[p]) for p in parts]
        return Portion(pieces, int(self.rows.count[index].sum()))

    def gamma(self, progress: float) -> float:
        self.progress = progress  # TODO(core)
        return 0.0

    def loss(self, piece: Piece, anchor: bool) -> Loss:
        batch, noise = piece
        noise = None if noise is None else noise.to(self.device)
        found = self.objective.score(self.model, batch.to(self.device), noise, self.progress)
        none = found.total.new_zeros(())
        extra = none if found.anchor is None else found.anchor.sum()
        return Loss(found.total, none, found.rows.sum(), extra)

    def validate(self, now: Moment) -> dict[str, Any]:
        """Score rows of the valid split."""
        index = spread(len(self.valid), self.config.train.eval_rows)
        found = score(
            self.model,
            self.bound,
            self.valid,
            index,
            device=self.device,
            precision=now.precision,
            quiet=True,
        )
        if not math.isfinite(found.nll):
            raise RunStopped(f"the validation loss is not finite at step {now.step}")
        self.said = f" valid ppl {found.ppl:.1f}"
        error = {} if math.isnan(found.se) else {"valid_se": found.se}  # over documents
        plain = {"valid_nll": found.nll, "valid_ppl": found.ppl}
        return {"step": now.step, "tokens": now.tokens, **plain, **error}

    def record(self, steps: Sequence[StepStats], now: Moment) -> dict[str, Any]:
        """Nats a token over the steps; the anchor loss where there is one."""
        tokens = sum(s.tokens for s in steps)
        found: dict[str, Any] = {"step": now.step, "tokens": now.tokens}
        found["loss"] = sum(s.nats for s in steps) / tokens
        if anchor := sum(s.anchor for s in steps):
            found["anchor_loss"] = anchor / tokens
        found |= {"lr_factor": steps[-1].lr_factor, "grad_norm": steps[-1].grad_norm}
        return {**found, "tokens_per_s": now.rate, "seconds": now.seconds}

    def note(self, record: dict[str, Any]) -> str:
        return f"loss {record['loss']:.3f}{self.said} {record['tokens_per_s']:,.0f} tok/s"

    def broken(self, step: int, run: Path, world: World) -> str:
        """Keep the batch that broke the loss, and say what to try."""
        path = run / f"bad-step-{step}-rank-{world.rank}.safetensors"
        pieces = self.portion(step, world).pieces
        tensors = {n: torch.cat([getattr(b, n) for b, _ in pieces]) for n in ("x", "valid")}
        if noises := [noise for _, noise in pieces if noise is not None]:
            tensors |= {n: torch.cat([getattr(noise, n) for noise in noises]) for n in ("t", "u")}
        save_file(tensors, path)
        return (
            f"the loss is not finite at step {step}; the batch is in {path}. Try a lower "
            "optim.lr or optim.muon_lr, a longer optim.warmup, or train.precision fp32; "
            "checkpoints so far are kept"
        )

    def besides(self, step: int) -> Besides:
        lengths = Lengths.of(self.rows.store, self.config.data.length)
        return Besides(self.vocab, {"data": self.rows.store.key}, lengths)

    def check(self, saved: Checkpoint, state: dict[str, Any]) -> None:
        if saved.vocab.hash != self.vocab.hash:
            raise UserError(f"the tokenizer is not the one of {saved.path}: have the data changed?")
        if state.get("data") != self.rows.store.key:
            raise UserError(
                f"the training data are not those of {saved.path}: they have changed since"
            )

    def beginning(self, step: int, precision: str, world: World) -> str:
        on = (world, self.device, precision)
        return summary.beginning(self.config, self.model, self.rows, step, on)

    def ending(self, run: Path) -> str:
        return summary.ending(run, self.objective.exact)

    def again(self, run: Path) -> str:
        return f"adlm train --resume {run}"
