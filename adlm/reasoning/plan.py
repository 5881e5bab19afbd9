"""A whole run: task, method, sizes; what is printed before it starts and stored with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.reasoning import data
from adlm.reasoning.data import Items
from adlm.reasoning.methods.base import Curriculum, Method, Stage, make_method
from adlm.reasoning.tasks.base import Task, make_task
from adlm.reasoning.vocab import pieces


@dataclass(frozen=True)
class ReasoningSettings:
    """How a model is trained to reason.

    Attributes:
        data: generated (by the task), files (the public ones), or a folder with train, valid and
            test files.
        data_dir: Folder of the public files; the variable ADLM_DATA by default.
        skip_bad: Leave bad records of a file out instead of stopping at the first.
        knobs: Of the task's generator, such as '{nodes: 10}'.
        items: Training items that are generated; of files, how many are taken (0 = all).
        options: Of the method, such as '{feedback: true}'.
        stages: Stages of a curriculum; 0 = the task's own number.
        per_stage: Epochs of each stage but the last.
        first: Epochs of stage 0, where chain of thought is learnt; 0 = as the other stages.
        epochs: Epochs in all.
        tokenizer: words (of the training items), byte, gpt2, or a tokenizer.json.
        base: A checkpoint to start from, of adlm or GPT-2's folder; else from scratch.
        add_tokens: Add the slots' special tokens to the base's vocabulary.
        objective: ar, or a2r with an anchor network in front of the trunk.
        size: pico, nano, micro, tiny, small or medium, of a model from scratch.
        batch: Items in a step.
        optim: muon (and AdamW beside it) or adamw.
        lr: AdamW's learning rate.
        muon_lr: Muon's learning rate.
        valid: Items of the valid split that are solved after each stage.
        seed: Seed of data, weights and order.
        precision: auto (bf16 where this machine is fast at it), bf16 or fp32.
        device: auto, cpu, mps, cuda or cuda:N.
    """

    data: str = "generated"
    data_dir: str | None = None
    skip_bad: bool = False
    knobs: dict[str, Any] = field(default_factory=dict)
    items: int = 20_000
    options: dict[str, Any] = field(default_factory=dict)
    stages: int = 0
    per_stage: int = 1
    first: int = 0
    epochs: int = 10
    tokenizer: str = "words"
    base: str | None = None
    add_tokens: bool = False
    objective: Literal["ar", "a2r"] = "ar"
    size: str = "nano"
    batch: int = 64
    optim: Literal["muon", "adamw"] = "muon"
    lr: float = 3e-3
    muon_lr: float = 0.02
    valid: int = 200
    seed: int = 0
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("items", "stages", "first"):
            check(getattr(self, name) >= 0, f"--{name}", getattr(self, name), "0 or more")
        for name in ("per_stage", "epochs", "batch", "valid"):
            check(getattr(self, name) >= 1, f"--{name}", getattr(self, name), "at least 1")
        check(self.lr > 0 and self.muon_lr > 0, "--lr", self.lr, "above 0")
        check(0 <= self.seed < 2**31, "--seed", self.seed, "in [0, 2^31)")
        if self.data == "generated" and not self.items:
            raise UserError("--items 0 means all of a file's; generated items need a number")


@dataclass(frozen=True)
class Plan:
    """What is to be learnt, and how."""

    task: str
    method: str
    settings: ReasoningSettings = field(default_factory=ReasoningSettings)

    def make_task(self) -> Task:
        return make_task(self.task, self.settings.knobs)

    def make_method(self) -> Method:
        """Return the method; anchored chain-of-thought drops steps where its task says so."""
        options = dict(self.settings.options)
        if self.method == "acot":
            options = {"remove": self.make_task().removes, **options}
        return make_method(self.method, options)

    def stages(self) -> list[Stage]:
        s = self.settings
        count = s.stages or self.make_task().stages
        return self.make_method().stages(Curriculum(count, s.per_stage, s.epochs, s.first))

    def items(self, split: str, count: int) -> Items:
        """Return a split's items; 0 = all of a file's."""
        return load(self.make_task(), self.settings, split, count)


def load(task: Task, settings: ReasoningSettings, split: str, count: int) -> Items:
    """A split of a task's items by the settings: generated, the public files, or a folder's."""
    if settings.data == "generated":
        return data.generated(task, count or 1000, settings.seed, split)

    def read(name: str) -> Items:
        if settings.data == "files":
            return data.from_files(task, name, settings.data_dir, settings.skip_bad)
        return data.from_folder(task, name, settings.data, settings.skip_bad)

    found = read(split)
    if split == "train":
        found = data.without(found, [read("valid"), read("test")])
    return Items(found.items[: count or None], found.source, found.skipped)


def describe(plan: Plan, items: Items, vocab: Vocab) -> str:
    """Describe the stages, their epochs and token counts, before anything is trained."""
    method, s = plan.make_method(), plan.settings
    made = [pieces(i, vocab) for i in items.items]
    lines = [
        f"{plan.method} on {plan.task}: {len(made):,} items ({items.source}), "
        f"{s.batch} in a step, vocabulary {vocab.size:,}"
    ]
    for number, stage in enumerate(plan.stages()):
        rows = [method.row(p, stage, vocab) for p in made]
        tokens = sum(map(len, rows)) * stage.epochs
        labels = sum(r.labelled for r in rows) * stage.epochs
        steps = -(-len(rows) // s.batch) * stage.epochs
        lines.append(
            f"  stage {number}: {stage.describe()}; {steps:,} steps, {tokens:,} tokens, "
            f"{labels:,} of them with a loss"
        )
    last = plan.stages()[-1]
    more = sum(len(p.anchors) > last.slots for p in made) if plan.method == "acot" else 0
    if more:
        lines.append(f"  {more:,} items have more anchors than slots: the first {last.slots} count")
    return "\n".join(lines)
