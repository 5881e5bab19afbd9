"""Language modelling as a workload: rows of a corpus, an objective and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from adlm import device as devices
from adlm import registry
from adlm.config import Config
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.loader import Ahead, Order, share
from adlm.data.vocab import Vocab
from adlm.errors import RunStopped, UserError
from adlm.models import adapt, checkpoint
from adlm.models.adapt import Base
from adlm.models.build import build_model
from adlm.models.checkpoint import Checkpoint
from adlm.models.cost import rough_memory, step_memory
from adlm.models.denoiser import Denoiser
from adlm.nn.effort import Effort
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.progress import sparkline
from adlm.train import shard
from adlm.train.guard import advice
from adlm.train.log import Metrics, read
from adlm.train.workload import Cadence, Loss, Moment, Phase, Portion, RunState, StepStats, Workload
from adlm.types import Batch, Noise
from adlm.world import World, world_size

SCORING = 3  # rows are scored in the time that one is trained

Piece = tuple[Batch, Noise | None]


class LanguageModelling(Workload):
    """A model of text by an objective."""

    model: Denoiser
    reach: int | None = None  # how far ahead positions see in the present step
    effort = Effort()  # how often blocks run in it

    def __init__(self, config: Config, device: str, base: Base | None = None):
        cfg = config.train
        self.base = base
        if base is not None:
            adapt.check(config, base)
        self.config, self.device = config, device
        self.phases = [Phase(cfg.steps, config.optim)]
        # a hidden bridge's anchor head rests while gamma is 0, the map of recall in single passes
        self.idle = config.model.bridge == "hidden" or config.model.recall > 0
        self.vocab: Vocab = base.vocab if base else open_vocab(config.data)
        self.rows = open_rows(config.data, "train", self.vocab)
        self.valid = open_rows(config.data, "valid", self.vocab)
        scored = min(cfg.eval_rows, len(self.valid)) / (SCORING * cfg.batch)  # in steps
        self.cadence = Cadence(cfg.log_every, cfg.eval_every, scored, cfg.save_every, keep=cfg.keep)
        self.lengths = Lengths.of_rows(self.rows)
        texts = cfg.batch // 2 if config.process.complement else cfg.batch
        self.order = Order(len(self.rows), texts, cfg.seed)
        self.ahead: Ahead[Portion] | None = None
        if world_size() == 1:  # several may share the weights, or have a machine each
            needed, free = rough_memory(config, self.vocab.size), devices.free_memory(device) or 0
            if free / 4 < needed < 4 * free:  # where exactness is worth a pass over fake tensors
                needed = step_memory(config, self.vocab.size)
            less = "a smaller --train.micro, --size or --data.length; adlm plan tells more"
            devices.check_memory(needed, "a step of this training", less, device)
        torch.manual_seed(cfg.seed)
        self.model = build_model(config, self.vocab.size)
        if base is not None:
            adapt.begin(self.model, config, base)
        if config.base.anneal and not config.model.shift:
            raise UserError("base.anneal opens the attention of a causal base, and there is none")
        self.model = self.model.to(device)
        if registry.lookup("objective", config.objective).needs_counts(config):
            self.counts = CorpusCounts.count(self.rows, self.vocab.size)
        self.objective = make_objective(config, self.vocab, self.counts)
        self.bound = evaluator(config, self.vocab, self.counts)  # what is reported
        shard.prepare(self.model, cfg.compile, cfg.checkpoint_blocks, cfg.shard != "none")

    def dropout_seed(self, step: int, rank: int) -> int:
        return (self.config.train.seed * 1_000_003 + step) * 4099 + rank

    def portion(self, step: int, world: World) -> Portion:
        """Return what `prepared` does; the next step's is prepared while this one is trained."""
        steps = self.config.train.steps
        self.reach = adapt.reach(self.config, step / steps)
        alike = torch.Generator().manual_seed(self.dropout_seed(step, -1))  # on all ranks
        self.effort = Effort.drawn(self.config.model, alike)
        if self.ahead is None:
            self.ahead = Ahead(lambda step: self.prepared(step, world), last=steps - 1)
        return self.ahead.get(step)

    def prepared(self, step: int, world: World) -> Portion:
        """This process's rows and their part of the global batch's noise, `micro` rows a piece."""
        cfg = self.config.train
        generator = torch.Generator().manual_seed(cfg.seed * 1_000_003 + step)
        noise = self.objective.noise_at(step / cfg.steps, cfg.batch, self.rows.length, generator)
        index = self.order.step(step)
        if self.config.process.complement:
            index = index.repeat(2)
        mine = share(cfg.batch, world.rank, world.size)
        batch, noise = self.rows.batch(index[mine]), None if noise is None else noise[mine]
        size = cfg.micro or len(batch)
        parts = [slice(low, low + size) for low in range(0, len(batch), size)]
        pieces = [(batch[p], None if noise is None else noise[p]) for p in parts]
        return Portion(pieces, self.rows.scored_in(index))

    def gamma(self, progress: float) -> float:
        return self.objective.gamma(progress)

    def loss(self, piece: Piece, anchor: bool) -> Loss:
        batch, noise = piece
        self.model.reach, self.model.trunk.effort = self.reach, self.effort
        noise = None if noise is None else noise.to(self.device)
        found = self.objective.score(self.model, batch.to(self.device), noise, anchor)
        if found.anchor is None or found.anchor_rows is None:
            none = found.bound.new_zeros(())
            return Loss(found.bound, none, found.rows.sum(), none)
        return Loss(found.bound, found.anchor, found.rows.sum(), found.anchor_rows.sum())

    def validate(self, now: Moment, world: World) -> Metrics:
        """Score rows of the valid split."""
        index = spread(len(self.valid), self.config.train.eval_rows)
        self.model.reach, self.model.trunk.effort = None, Effort.scored(self.config.model)
        found = score(
            self.model,
            self.bound,
            self.valid,
            index,
            device=self.device,
            precision=now.precision,
            quiet=True,
            world=world,
        )
        if not math.isfinite(found.nll):
            raise RunStopped(f"the validation loss is not finite at step {now.step}")
        self.said = f" valid ppl {found.ppl:.1f}"
        error = {} if math.isnan(found.se) else {"valid_se": found.se}  # over documents
        plain = {"valid_nll": found.nll, "valid_ppl": found.ppl}
        return {"step": now.step, "tokens": now.tokens, **plain, **error}

    def record(self, steps: Sequence[StepStats], now: Moment) -> Metrics:
        """Return nats a token over the steps; the anchor loss where there is one."""
        tokens = sum(s.tokens for s in steps)
        found: dict[str, float] = {"step": now.step, "tokens": now.tokens}
        found["loss"] = sum(s.nats for s in steps) / tokens
        if anchor := sum(s.anchor for s in steps):
            found["anchor_loss"] = anchor / tokens
        found |= {"lr_factor": steps[-1].lr_factor, "grad_norm": steps[-1].grad_norm}
        return {**found, "tokens_per_s": now.rate, "seconds": now.seconds}

    def broken(self, step: int, run: Path, world: World) -> str:
        """Keep the batch that broke the loss, and say what to try."""
        path = run / f"bad-step-{step}-rank-{world.rank}.safetensors"
        pieces = self.portion(step, world).pieces
        tensors = {n: torch.cat([getattr(b, n) for b, _ in pieces]) for n in ("x", "valid")}
        if noises := [noise for _, noise in pieces if noise is not None]:
            tensors |= {n: torch.cat([getattr(noise, n) for noise in noises]) for n in ("t", "u")}
        save_file(tensors, path)
        why = f"the loss is not finite at step {step}; the batch is in {path}"
        return f"{self.stopped(why, run)}; --train.skip_broken 10 leaves such batches out"

    def stopped(self, why: str, run: Path) -> str:
        return f"{why}. {advice(run, self.config.optim)}"

    def state(self, now: RunState) -> RunState:
        return replace(now, data=self.rows.store.key, shuffle=self.order.shuffle)

    def check(self, saved: Checkpoint) -> RunState:
        if saved.vocab.hash != self.vocab.hash:
            raise UserError(f"the tokenizer is not the one of {saved.path}: have the data changed?")
        state = saved.state(RunState)
        if state.data != self.rows.store.key:
            raise UserError(
                f"the training data are not those of {saved.path}: they have changed since"
            )
        self.order = Order(len(self.rows), self.order.batch, self.order.seed, state.shuffle)
        return state

    def beginning(self, step: int, precision: str, world: World) -> str:
        """Return what is trained, on what and where."""
        cfg, rows = self.config.train, len(self.rows)
        size = sum(p.numel() for p in self.model.parameters())
        tokens, goal = self.rows.scored_tokens, cfg.steps * cfg.batch
        where = f"{world.size} x {self.device}" if world.size > 1 else self.device
        if self.device == "cpu":
            where += f" ({torch.get_num_threads()} threads)"
        lines = [
            f"model     {self.config.objective}, {size:,} parameters",
            f"data      {self.config.data.name}: {rows:,} {self.kind}, {tokens:,} tokens",
            f"training  {cfg.steps:,} steps of {cfg.batch} rows of {self.rows.length}: "
            f"{goal * tokens / rows:,.0f} tokens, {goal / rows:.1f} epochs",
            f"on        {where}, {precision}",
        ]
        if step:
            return "\n".join([*lines, f"goes on   from step {step:,}"])
        if self.base is not None:
            lines.insert(1, f"base      {adapt.told(self.config, self.base)}")
        return "\n".join(lines)

    @property
    def kind(self) -> str:
        """What a row is, and what of it is scored."""
        if self.rows.given is None:
            return "rows"
        left = f" ({self.rows.left_out:,} too long are left out)" if self.rows.left_out else ""
        return f"prompts with answers{left}, the answers scored"

    def ending(self, run: Path) -> str:
        """Return the last validation with its curve, and what one may do with the run."""
        found = [r for r in read(run / "metrics.jsonl") if "valid_ppl" in r]
        lines = [f"done: {checkpoint.find(run)}"]
        if found:
            ppl, error = found[-1]["valid_ppl"], found[-1].get("valid_se", math.nan)
            spread = f" ± {ppl * error:.1f}" if math.isfinite(error) else ""
            curve = f"   {sparkline([r['valid_nll'] for r in found])}" if len(found) > 2 else ""
            bound = "" if self.objective.exact else "≤ "
            given = ", given the lengths" if bound and self.valid.shows_ends else ""
            lines.append(f"validation PPL {bound}{ppl:.1f}{spread}{given}{curve}")
        own = "".join(f" --use {name}" for name in own_code(self.config))
        nexts = (f"adlm {command} {run}{own}" for command in ("sample", "watch", "eval likelihood"))
        return "\n".join([*lines, "next: " + ", ".join(nexts)])


def own_code(config: Config) -> list[str]:
    """Return the names of code outside adlm without which a run cannot be used.

    Example:
        >>> own_code(Config(objective="mine:Better"))
        ['mine:Better']
    """
    process = config.process
    named = {"objective": config.objective, "schedule": process.schedule}
    named |= {"masking": process.masking, "dataset": config.data.name}
    return [name for axis, name in named.items() if registry.outside(axis, name)]
