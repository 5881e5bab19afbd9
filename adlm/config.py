"""A run's whole configuration: frozen dataclasses, checked when made, stored as JSON.

Field descriptions become `--help`; a value out of range raises UserError with the field's name.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from adlm.errors import UserError
from adlm.nn.config import ModelConfig
from adlm.process.config import AnchorConfig, ProcessConfig
from adlm.values import check, check_sizes, typed_object


@dataclass(frozen=True)
class DataConfig:
    """What is read, and how it becomes rows of tokens.

    Attributes:
        name: A named set (sotu, lm1b, wikitext-2, ...), a file or folder, hf:NAME, or a DataSet
            of yours, module:name.
        dir: Folder that holds the named sets' files; the variable ADLM_DATA by default.
        field: Name of the text field in jsonl, csv, parquet and hf data.
        tokenizer: byte, bpe:SIZE (trained on the train split), gpt2, bert, or a tokenizer.json.
        length: Tokens in a row, L.
        packing: wrap joins documents end to end; document starts a new row with each; pair has a
            row for each prompt with its answer (or chat, `messages`) of jsonl or csv files, and
            the answer alone is hidden and scored.
        skip_long: Leave out pairs that are longer than a row, which are refused otherwise.
        attend: row lets all of a row's tokens see each other; document only those of one document.
        workers: Processes that tokenise; 0 = all cores. Never changes the result.
        stream: Read data of the hub as a stream while they are tokenised, without a copy of them.
    """

    name: str = "sotu"
    dir: str | None = None
    field: str = "text"
    tokenizer: str = "bpe:1024"
    length: int = 64
    packing: Literal["wrap", "document", "pair"] = "wrap"
    skip_long: bool = False
    attend: Literal["row", "document"] = "row"
    workers: int = 0
    stream: bool = False

    def __post_init__(self) -> None:
        check(bool(self.name.strip()), "data.name", self.name, "a named set, a path or hf:NAME")
        check_sizes(self, "data.", 2, length=2**24)
        check_sizes(self, "data.", 0, workers=4096)


@dataclass(frozen=True)
class OptimConfig:
    """The optimiser.

    Attributes:
        name: adamw, or muon: Muon for the trunk's matrices and AdamW for the rest.
        lr: AdamW's learning rate; beside Muon, for embeddings and vectors, a higher one is right.
        muon_lr: Muon's learning rate.
        bridge_lr: AdamW's rate for the bridge's matrix, whose V inputs add up; 0 = lr.
        betas: AdamW's decay rates.
        weight_decay: Decoupled weight decay of the matrices.
        warmup: Steps of linear warm-up.
        decay: What follows: constant, cosine to zero, or linear to zero over the last part.
        decay_share: The share of all steps that a linear decay takes.
        clip: Largest gradient norm; 0 = no clipping.
        ema: Decay of the averaged weights that evaluation uses; 0 = none.
    """

    name: Literal["adamw", "muon"] = "muon"
    lr: float = 3e-3
    muon_lr: float = 0.02
    bridge_lr: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    warmup: int = 30
    decay: Literal["constant", "cosine", "linear"] = "linear"
    decay_share: float = 0.4
    clip: float = 1.0
    ema: float = 0.0

    def __post_init__(self) -> None:
        check(0 < self.lr < math.inf, "optim.lr", self.lr, "above 0")
        check(0 < self.muon_lr < math.inf, "optim.muon_lr", self.muon_lr, "above 0")
        check(self.bridge_lr >= 0, "optim.bridge_lr", self.bridge_lr, "0 (as lr) or more")
        check(all(0 <= b < 1 for b in self.betas), "optim.betas", self.betas, "two in [0, 1)")
        check(self.weight_decay >= 0, "optim.weight_decay", self.weight_decay, "0 or more")
        check_sizes(self, "optim.", 0, warmup=10**12)
        check(0 < self.decay_share <= 1, "optim.decay_share", self.decay_share, "in (0, 1]")
        check(self.clip >= 0, "optim.clip", self.clip, "0 or more")
        check(0 <= self.ema < 1, "optim.ema", self.ema, "in [0, 1)")


@dataclass(frozen=True)
class TrainConfig:
    """The run.

    Attributes:
        steps: Optimiser steps.
        batch: Rows in a step, over all processes.
        micro: Rows that one process holds at once; 0 = all of its share.
        seed: Seed of weights, order and noise.
        precision: auto (bf16 where this machine is fast at it), bf16 or fp32.
        compile: Compile the trunk with torch.compile.
        device: auto, cpu, mps, cuda or cuda:N.
        log_every: Steps between lines of metrics.
        eval_every: Steps between evaluations on the valid split; 0 = only at the end.
        eval_rows: Rows that such an evaluation scores.
        save_every: Steps between checkpoints; 0 = only at the end.
        keep: How many of the newest checkpoints stay.
        tensorboard: Write TensorBoard events too.
        skip_broken: So many steps in a row whose loss is not finite are left out; 0 = the first one
            stops the run.
    """

    steps: int = 1000
    batch: int = 64
    micro: int = 0
    seed: int = 0
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    compile: bool = False
    device: str = "auto"
    log_every: int = 10
    eval_every: int = 0
    eval_rows: int = 256
    save_every: int = 0
    keep: int = 2
    tensorboard: bool = False
    skip_broken: int = 0

    def __post_init__(self) -> None:
        many, rows = 10**12, 10**9
        check_sizes(self, "train.", 1, steps=many, log_every=many, eval_rows=many, keep=many)
        check_sizes(self, "train.", 1, batch=rows)
        check_sizes(self, "train.", 0, micro=rows, eval_every=many, save_every=many)
        check_sizes(self, "train.", 0, skip_broken=many)
        check(0 <= self.seed < 2**31, "train.seed", self.seed, "in [0, 2^31)")


@dataclass(frozen=True)
class BaseConfig:
    """What a training starts from.

    Attributes:
        name: A run, a checkpoint, another project's weights or a name on the hub (--base is short
            for it): its network and tokenizer are taken. Nothing by default.
        anneal: A causal base's attention opens over this share of the training; 0 = at once.
    """

    name: str | None = None
    anneal: float = 0.0

    def __post_init__(self) -> None:
        check(0 <= self.anneal <= 1, "base.anneal", self.anneal, "in [0, 1]")


@dataclass(frozen=True)
class Config:
    """Everything that determines a run.

    Attributes:
        objective: What is trained: ar, mdlm, bd3lm, sedd, d3pm, udlm, gidd, or with an anchor
            network a2r, adlm, adlm-bd3lm, adlm-sedd, adlm-d3pm, adlm-udlm, adlm-gidd.
        data: What is read.
        model: The network.
        process: The forward process.
        anchor: The anchors.
        optim: The optimiser.
        train: The run.
        base: What it starts from.
    """

    objective: str = "mdlm"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    process: ProcessConfig = field(default_factory=ProcessConfig)
    anchor: AnchorConfig = field(default_factory=AnchorConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    base: BaseConfig = field(default_factory=BaseConfig)

    def __post_init__(self) -> None:
        if self.model.shift and self.data.attend == "document":
            raise UserError("model.shift needs data.attend row: a document has no start of its own")
        if self.process.conditioned and not self.model.time:
            raise UserError("process.conditioned needs model.time above 0, found 0")


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass as plain JSON types."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(values: Any, cls: type = Config, where: str | Path = "config") -> Any:
    """Return the inverse of `to_dict`, or raise UserError; what is not there has its default.

    Example:
        >>> from_dict(to_dict(Config(objective="ar"))) == Config(objective="ar")
        True
        >>> from_dict({"model": {"blocks": 1.5}}, where="config.json")
        Traceback (most recent call last):
        adlm.errors.UserError: config.json: model.blocks must be a whole number, found 1.5
    """
    return typed_object(upgraded(values) if cls is Config else values, cls, where)


def upgraded(values: Any) -> Any:
    """Return the settings of an older version as this one says them.

    Dropout was once that of attention weights too, and some studies stored 0 for false.
    """
    sections = values if isinstance(values, dict) else {}
    model, anchor = sections.get("model"), sections.get("anchor")
    if isinstance(model, dict) and "dropout" in model and "attention_dropout" not in model:
        values = {**values, "model": {**model, "attention_dropout": model["dropout"]}}
    if isinstance(anchor, dict) and anchor.get("fade") in (0, 1):
        values = {**values, "anchor": {**anchor, "fade": bool(anchor["fade"])}}
    return values


def differences(a: object, b: object) -> dict[str, tuple[object, object]]:
    """Return the fields in which two configurations differ: dotted name -> both values.

    Example:
        >>> differences(Config(), Config(data=DataConfig(length=128)))
        {'data.length': (64, 128)}
    """
    left, right = dict(flat(to_dict(a))), dict(flat(to_dict(b)))
    both = {name: (left.get(name), right.get(name)) for name in sorted(left | right)}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def flat(values: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values inside nested objects with their dotted names."""
    if not isinstance(values, dict):
        yield name, values
        return
    for key, value in values.items():
        yield from flat(value, f"{name}.{key}" if name else key)
