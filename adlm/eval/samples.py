"""`eval samples`: quality of generated texts, everything together, because each figure misleads.

A generative perplexity falls when a model repeats itself; the entropy and the repetition beside it
say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from adlm import api
from adlm import device as devices
from adlm.config import check, to_dict
from adlm.data.corpus import open_rows
from adlm.eval.base import CheckpointResult
from adlm.eval.judge import SMALL, Features, Judge, Sentences
from adlm.eval.likelihood import DataChoice
from adlm.eval.mauve import FEWEST, Mauve, mauve
from adlm.eval.texts import TextFigures, Texts, describe, read, references
from adlm.models import checkpoint
from adlm.registry import register
from adlm.samplers import template
from adlm.samplers.settings import SamplingSettings
from adlm.viz.page import Section
from adlm.viz.table import number, spread

OURS, REAL = "samples", "real texts"


@dataclass(frozen=True)
class SamplesSettings(SamplingSettings):
    """How texts are written, if from a checkpoint, and how they are judged.

    Attributes:
        n: How many.
        references: Real texts for a jsonl file of samples, as jsonl with a "text" each; a
            checkpoint's are rows of its own data.
        data: Which text the references are from, if not the checkpoint's own.
        split: Part of the data that the references are from.
        judge: smollm2 (offline), a causal LM's folder or hub name (gpt2-large is the paper's), or
            none.
        features: What MAUVE sees: the judge's last hidden state, or MiniLM sentence embeddings.
        mauve_seeds: Seeds of the k-means that MAUVE runs.
    """

    n: int = 128
    references: str | None = None
    data: DataChoice = field(default_factory=DataChoice)
    split: Literal["valid", "test"] = "test"
    judge: str = SMALL
    features: Literal["judge", "minilm"] = "judge"
    mauve_seeds: int = 5

    def __post_init__(self) -> None:
        check(self.mauve_seeds >= 1, "--mauve_seeds", self.mauve_seeds, "at least 1")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class JudgedTexts(TextFigures):
    """The figures of one set of texts."""

    generative_ppl: float | None = None
    mauve: Mauve | None = None


@register("result", "eval samples")
@dataclass(frozen=True, kw_only=True)
class SamplesResult(CheckpointResult):
    """Samples and real texts under the same figures."""

    command: ClassVar[str] = "eval samples"
    data_hash: str | None = None  # of texts that a checkpoint wrote
    sampling: dict[str, object] | None = None
    nfe: float | None = None
    seconds: float | None = None
    examples: list[str] = field(default_factory=list)
    samples: str | None = None  # of texts from a file
    unit: str | None = None
    seed: int | None = None
    rows: dict[str, JudgedTexts]
    judge: str | None = None
    features: str | None = None
    no_mauve: str | None = None

    def section(self, name: str) -> Section:
        rows = []
        for title, r in self.rows.items():
            cloud = r.mauve or Mauve()
            cells = [number(r.generative_ppl), number(r.entropy.mean)]
            cells += [number(r.distinct.get("2"), 3), number(r.repetition.mean, 3)]
            rows.append([title, *cells, number(cloud.mean, 3) + spread(cloud.sd, 3)])
        notes = [f"Judge: {self.judge}."] if self.judge else []
        notes += [r.mauve.note for r in self.rows.values() if r.mauve and r.mauve.note]
        notes += [f"{self.no_mauve}."] if self.no_mauve else []
        header = ["texts", "generative PPL", "entropy (nats)", "distinct-2", "repetition", "MAUVE"]
        return Section("Samples", header, rows, notes, self.examples)

    def with_row(self, name: str, **more: Any) -> SamplesResult:
        """Return the same with more figures of one set of texts."""
        return replace(self, rows={**self.rows, name: replace(self.rows[name], **more)})


def measure(
    place: str,
    settings: SamplesSettings = SamplesSettings(),
    keep: Callable[[SamplesResult], None] = lambda _: None,
) -> SamplesResult:
    """Judge the texts of a file, or those that a checkpoint writes; `keep` gets what there is."""
    device = devices.pick(settings.device)
    precision = devices.precision(settings.precision, device)
    judged = None if settings.judge == "none" else Judge(settings.judge, device)  # is it installed?
    view: Features | None = judged if settings.features == "judge" else Sentences(device)
    if judged:
        _ = judged.parts  # can it be loaded? Before anything is computed or written
    from_file = Path(place).is_file()
    ours, real, result = (read_texts if from_file else write_texts)(place, settings)
    texts = {OURS: ours} | ({REAL: real} if real else {})
    least = min(len(t.texts) for t in texts.values())
    rows = {name: JudgedTexts(**vars(describe(t, least))) for name, t in texts.items()}
    result = replace(result, rows=rows, seed=settings.seed).stamped(device, precision)
    keep(result)
    if judged:
        result = replace(result, judge=judged.about)
        for name, t in texts.items():
            result = result.with_row(name, generative_ppl=judged.score(t.texts).ppl)
            keep(result)
    return compare(result, ours, real, view, settings) if view and real else result


def read_texts(place: str, settings: SamplesSettings) -> tuple[Texts, Texts | None, SamplesResult]:
    """Read samples, and real texts if they are given."""
    ours = read(Path(place))
    real = read(Path(settings.references)) if settings.references else None
    if real and real.unit != ours.unit:  # only words can be compared
        ours, real = (read(Path(str(p)), by_words=True) for p in (place, settings.references))
    return ours, real, SamplesResult(rows={}, samples=ours.source, unit=ours.unit)


def write_texts(place: str, settings: SamplesSettings) -> tuple[Texts, Texts, SamplesResult]:
    """Write texts with a checkpoint, and pick twice as many real ones of the same length."""
    check(settings.n >= 2, "--n", settings.n, "at least 2")
    model = api.load(place, settings.device)
    data, vocab = settings.data.of(checkpoint.load(place)), model.vocab
    rows = open_rows(data, settings.split, vocab)
    least = data.length if data.packing == "wrap" else 2
    real = references(rows, vocab, 2 * settings.n, least, settings.seed)
    made = model.write(template.after("", data.length, vocab), settings.sampling)
    result = SamplesResult(
        data_hash=rows.store.key,
        sampling={**to_dict(settings.sampling), "sampler": made.sampler},
        nfe=float(made.nfe.mean()),
        seconds=made.seconds,
        examples=made.texts[:8],
        rows={},
    ).of(checkpoint.load(place), place)
    return Texts(made.texts, made.ids), real, result


def compare(
    result: SamplesResult, ours: Texts, real: Texts, view: Features, settings: SamplesSettings
) -> SamplesResult:
    """Add MAUVE of samples against real texts, and of real against real, with as many a side."""
    count = min(len(ours.texts), len(real.texts) // 2)
    if count < FEWEST:
        needs = f"MAUVE needs {FEWEST} samples and twice as many real texts"
        return replace(result, no_mauve=needs)
    order = np.random.default_rng(settings.seed).permutation(len(real.texts))
    points = view.features([real.texts[i] for i in order[: 2 * count]])
    made, seeds = view.features(ours.texts[:count]), settings.mauve_seeds
    result = result.with_row(OURS, mauve=mauve(made, points[:count], seeds))
    result = result.with_row(REAL, mauve=mauve(points[count:], points[:count], seeds))
    return replace(result, features=view.about)
