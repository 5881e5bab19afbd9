"""`eval anchors`: how good the anchors are, and how far a poor anchor harms the output."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from adlm import api
from adlm.config import check
from adlm.data.corpus import open_rows
from adlm.data.pack import Rows
from adlm.errors import UserError
from adlm.eval.base import MOST_DRAWS, CheckpointResult, Computing
from adlm.eval.damage import DAMAGES, damaged
from adlm.eval.judge import Judge
from adlm.eval.lens import Band, Lens, RatioFigures
from adlm.eval.likelihood import DataChoice
from adlm.eval.texts import Texts, describe
from adlm.models import checkpoint
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.process.anchors import Anchors
from adlm.process.kernel import Kernel, make_kernel
from adlm.process.schedule import make_schedule
from adlm.progress import console
from adlm.registry import register
from adlm.samplers import template
from adlm.samplers.settings import SamplingSettings
from adlm.values import check_sizes
from adlm.viz.page import Section
from adlm.viz.plots import Line, curves, png
from adlm.viz.table import markdown_table, number

RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9)
DIALS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class AnchorsSettings(Computing):
    """What is looked at, and how closely.

    Attributes:
        data: Which text; an imported model's own may not be at hand.
        plain: A checkpoint or run of a plain MDLM of the same vocabulary, to compare with.
        split: Which part of the data.
        rows: Rows that are looked at, spread evenly.
        draws: Monte-Carlo draws a row of the bound.
        texts: Texts sampled at each damage; 0 = none.
        judge: Judge of their generative perplexity: smollm2, a causal LM, or none.
        seed: Seed of masks, damage and samples.
    """

    data: DataChoice = field(default_factory=DataChoice)
    plain: str | None = None
    split: Literal["valid", "test"] = "test"
    rows: int = 256
    draws: int = 2
    texts: int = 16
    judge: str = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.rows >= 1, "--rows", self.rows, "at least 1")
        check_sizes(self, "--", 1, draws=MOST_DRAWS)
        good = self.texts == 0 or 2 <= self.texts <= 10**7
        check(good, "--texts", self.texts, "0, or from 2 to 10,000,000")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Harm:
    """The model with its anchors damaged."""

    damage: str
    dial: float
    anchor_accuracy: float
    nll: float
    ppl: float | None  # None: beyond all numbers
    se_nll: float | None = None
    entropy: float | None = None
    examples: list[str] = field(default_factory=list)
    generative_ppl: float | None = None


@register("result", "eval anchors")
@dataclass(frozen=True, kw_only=True)
class AnchorsResult(CheckpointResult):
    """Predictions by masking ratio, anchors by frequency, and harm by damage."""

    command: ClassVar[str] = "eval anchors"
    plain: str | None = None
    data_hash: str
    split: str
    rows: int
    seed: int
    bands: list[Band]
    by_ratio: list[RatioFigures]
    damage: list[Harm] = field(default_factory=list)  # step by step, until all are there
    correlation_nll: float | None = None

    def section(self, name: str) -> Section:
        notes = []
        if (r := self.correlation_nll) is not None:
            notes = [f"Correlation of anchor accuracy and nats a token over the damages: {r:.2f}."]
        plot = png(self.accuracy(), "share masked", "accuracy")
        return Section(
            "Anchors under the lens", *self.harm(), notes=notes, plots=[("accuracy", plot)]
        )

    def harm(self) -> tuple[list[str], list[list[str]]]:
        """Return the table of damages."""
        rows = [
            [d.damage, f"{d.dial:g}", f"{d.anchor_accuracy:.3f}", f"≤ {d.ppl or math.inf:.2f}"]
            for d in self.damage
        ]
        return ["damage", "dial", "anchor accuracy", "PPL"], rows

    def text(self) -> str:
        rows = [
            [
                f"{r.ratio:.0%}",
                r.network,
                number(r.anchors.accuracy, 3),
                number(r.anchors.nats, 3),
                number(r.anchors.calibration_error, 3),
                number(r.all.accuracy, 3),
            ]
            for r in self.by_ratio
            if r.anchors.accuracy is not None
        ]
        header = ["masked", "network", "accuracy at anchors", "nats"]
        header += ["calibration error", "accuracy, all"]
        shares = ["-" if b.share_anchors is None else f"{b.share_anchors:.0%}" for b in self.bands]
        lines = [markdown_table(header, rows), "", markdown_table(*self.harm()), ""]
        lines.append(
            "anchors among tokens, from the commonest fifth of the text to the rarest: "
            + ", ".join(shares)
        )
        if (r := self.correlation_nll) is not None:
            lines.append(f"correlation of anchor accuracy and nats a token: {r:.2f}")
        return "\n".join(lines)

    def accuracy(self) -> dict[str, list[Line]]:
        """Accuracy at masked anchors by masking ratio, a line a network."""
        lines = []
        for network in dict.fromkeys(r.network for r in self.by_ratio):
            mine = [r for r in self.by_ratio if r.network == network]
            accuracy = [r.anchors.accuracy or 0.0 for r in mine]
            lines.append(Line(network, [r.ratio for r in mine], accuracy))
        return {"accuracy at masked anchors": lines}

    def draw(self, path: Path) -> None:
        """Draw accuracy by masking ratio (PATH-ratio.png), and the bound by the damage's dial."""
        ratio = path.with_name(f"{path.stem}-ratio.png")
        curves(ratio, self.accuracy(), "share masked", "accuracy")
        lines = []
        for name in dict.fromkeys(d.damage for d in self.damage):
            mine = [d for d in self.damage if d.damage == name]
            lines.append(Line(name, [d.dial for d in mine], [d.ppl or math.inf for d in mine]))
        curves(path, {"damaged anchors": lines}, "dial", "PPL (upper bound)", log_y=True)


def measure(
    place: str,
    settings: AnchorsSettings = AnchorsSettings(),
    keep: Callable[[AnchorsResult], None] = lambda _: None,
) -> AnchorsResult:
    """Look at the anchors of a checkpoint; `keep` gets what there is after each damage."""
    model, networks, told = opened(place, settings)
    net = networks["denoiser"]
    assert isinstance(net, Anchored)
    judge = None if settings.judge == "none" else Judge(settings.judge, model.device)
    device, precision = settings.place()
    data = open_rows(settings.data.of(checkpoint.load(place)), settings.split, model.vocab)
    index = spread(len(data), settings.rows)
    batches = [data.batch(part) for part in np.array_split(index, max(1, len(index) // 64))]
    rule, mask = Anchors(model.config.anchor, model.vocab), model.vocab.mask
    lens = Lens(batches, rule, model.counts, mask, settings.seed, device, precision, told)
    console.print("predictions by masking ratio")
    result = AnchorsResult(
        plain=settings.plain,
        data_hash=data.store.key,
        split=settings.split,
        rows=len(index),
        seed=settings.seed,
        bands=lens.bands(),
        by_ratio=lens.by_ratio(networks, RATIOS),
    )
    result = result.of(checkpoint.load(place), place).stamped(device, precision)
    keep(result)
    console.print("damage: none")
    first = harm(model, net, "noise", 0.0, lens, data, index, settings, judge)
    for name in DAMAGES:
        for dial in DIALS:
            found = replace(first, damage=name)  # a dial of 0 damages nothing
            if dial > 0:
                console.print(f"damage: {name} {dial:g}")
                found = harm(model, net, name, dial, lens, data, index, settings, judge)
            result = replace(result, damage=[*result.damage, found])
            keep(result)
    points = [first, *(d for d in result.damage if d.dial > 0)]  # the undamaged point counts once
    found_r = correlation([d.anchor_accuracy for d in points], [d.nll for d in points])
    return replace(result, correlation_nll=found_r)


def opened(
    place: str, settings: AnchorsSettings
) -> tuple[api.Model, dict[str, Denoiser], dict[str, Kernel]]:
    """Load the model, the networks that are looked at, and what those are told that see noise."""
    model = api.load(place, settings.device)
    if not isinstance(model.network, Anchored):
        kind = model.config.objective
        raise UserError(f"{place} has no anchor network: its objective is {kind}")
    if model.config.process.kernel == "uniform":
        raise UserError("anchors are looked at under masks, and uniform noise has none")
    if model.network.causal:
        raise UserError("anchors are looked at under masks: an A2R checkpoint has none")
    networks: dict[str, Denoiser] = {"denoiser": model.network}
    told = {"denoiser": kernel_of(model)} if model.config.process.conditioned else {}
    if settings.plain:
        other = api.load(settings.plain, settings.device)
        if other.vocab.hash != model.vocab.hash or other.network.causal:
            raise UserError(
                f"{settings.plain} is not a masked diffusion model of the same vocabulary"
            )
        networks["plain model"] = other.network
        told |= {"plain model": kernel_of(other)} if other.config.process.conditioned else {}
    return model, networks, told


def kernel_of(model: api.Model) -> Kernel:
    """What noise is to a model."""
    process = model.config.process
    schedule = make_schedule(process.schedule)
    return make_kernel(process.kernel, schedule, model.vocab.mask, model.vocab.size)


def harm(
    model: api.Model,
    net: Anchored,
    name: str,
    dial: float,
    lens: Lens,
    data: Rows,
    index: np.ndarray,
    settings: AnchorsSettings,
    judge: Judge | None,
) -> Harm:
    """Measure anchor accuracy, bound and samples of the model with its anchors damaged."""
    objective = evaluator(model.config, model.vocab, model.counts)
    how = (lens.device, lens.precision)
    with damaged(net, name, dial, settings.seed) as bridge:
        accuracy = lens.anchor_accuracy(net, bridge)
        draws, seed = settings.draws, settings.seed
        found = score(net, objective, data, index, draws, seed, 64, *how, quiet=True)
        entry = Harm(
            damage=name,
            dial=dial,
            anchor_accuracy=accuracy,
            nll=found.nll,
            ppl=found.ppl if math.isfinite(found.ppl) else None,
            se_nll=None if math.isnan(found.se) else found.se,
        )
        if not settings.texts:
            return entry
        written = SamplingSettings(
            n=settings.texts, seed=seed, precision=lens.precision, device=lens.device
        )
        made = model.write(template.after("", data.length, model.vocab), written)
    return replace(
        entry,
        entropy=describe(Texts(made.texts, made.ids)).entropy.mean,
        examples=made.texts,
        generative_ppl=judge.score(made.texts).ppl if judge else None,
    )


def correlation(x: list[float], y: list[float]) -> float | None:
    """Pearson's r; None where nothing varies."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
