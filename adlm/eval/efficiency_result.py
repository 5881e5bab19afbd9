"""What `eval efficiency` found: a table of the grid, and what a judge found against speed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from adlm.config import from_dict
from adlm.data.vocab import nominal_size
from adlm.eval.generation_cost import CaseCost, EfficiencyCase
from adlm.eval.mauve import ENOUGH
from adlm.eval.seeds import interval
from adlm.models.cost import training_flops
from adlm.registry import register
from adlm.results import Result
from adlm.viz.page import Section
from adlm.viz.plots import Line, curves, png
from adlm.viz.table import markdown_table, mib, number

SPEED = "tokens a second"
PANELS = {"generative PPL": "generative_ppl", "entropy of a text": "entropy", "MAUVE": "mauve"}
LOGARITHMIC = ("generative PPL",)
SEED = re.compile(r"[-_]*seed\d+$")  # as the last part of a run's name


@dataclass(frozen=True)
class RealTexts:
    """As many real texts of the test split, in a judge's eyes."""

    generative_ppl: float
    entropy: float | None


@register("result", "eval efficiency")
@dataclass(frozen=True, kw_only=True)
class EfficiencyResult(Result):
    """The grid with its costs."""

    command: ClassVar[str] = "eval efficiency"
    checkpoints: dict[str, str]  # run -> hash
    configs: dict[str, dict[str, object]] = field(default_factory=dict)
    judge: str | None = None
    real: RealTexts | None = None  # of the first run's data
    cases: list[CaseCost] = field(default_factory=list)

    def known(self, case: EfficiencyCase, now: EfficiencyResult) -> CaseCost | None:
        """A case that is here already, with the weights, code, machine and judge of `now`."""
        weights = self.checkpoints.get(case.checkpoint), now.checkpoints[case.checkpoint]
        places = [(r.commit, r.machine, r.judge) for r in (self, now)]
        if weights[0] != weights[1] or places[0] != places[1]:
            return None
        return next((found for found in self.cases if found.is_of(case)), None)

    def section(self, name: str) -> Section:
        plots = []
        if panels := self.panels(Path):
            said = "the plain reverse process has a ring; a dashed line is what real texts have"
            plots = [(said, png(panels, SPEED, "", log_x=True, log_y=LOGARITHMIC))]
        few = min((c.texts for c in self.cases if c.mauve is not None), default=ENOUGH)
        note = f"MAUVE of {few} texts a case is coarse: its authors ask for {ENOUGH}."
        notes = [note] if few < ENOUGH else []
        notes += [f"The judge is {self.judge}."] if self.judge else []
        notes += self.budgets() + self.over_seeds()
        return Section("What generation costs", *self.table(), notes, plots=plots)

    def over_seeds(self) -> list[str]:
        """Say what three or more seeds of a model have in common."""
        notes = []
        for runs in self.models():
            ways: dict[str, list[CaseCost]] = {}
            for c in self.cases:
                if c.checkpoint in runs:
                    steps = "" if c.steps is None else f" in {c.steps} steps"
                    way = f"{c.sampler}{c.way}{steps}, {c.length} x {c.batch}"
                    ways.setdefault(way, []).append(c)
            for way, own in ways.items():
                said = [
                    f"{title} {sum(found) / len(found):.3g} ({ends[0]:.3g} to {ends[1]:.3g})"
                    for title, name in PANELS.items()
                    if (found := [v for c in own if (v := getattr(c, name)) is not None])
                    and (ends := interval(found))
                ]
                if said:
                    label = f"{name_of(runs)}, {way}, mean and 95 % interval"
                    notes.append(f"{label}: {', '.join(said)}.")
        return notes

    def budgets(self) -> list[str]:
        """Say for how many tokens each model was to be trained, where they differ."""
        configs = {Path(run).name: from_dict(values) for run, values in self.configs.items()}
        tokens = {n: c.train.steps * c.train.batch * c.data.length for n, c in configs.items()}
        if len(set(tokens.values())) < 2:
            return []
        each = ", ".join(f"{name} {count / 1e6:.1f} M" for name, count in tokens.items())
        vocab = {name: nominal_size(c.data.tokenizer) for name, c in configs.items()}
        flops = [tokens[n] * training_flops(configs[n], size) for n, size in vocab.items() if size]
        if len(flops) == len(tokens) and max(flops) < 1.02 * min(flops):
            return [f"All were planned for the same training FLOPs, in training tokens: {each}."]
        return [
            f"The models were planned for different numbers of training tokens ({each}): compare "
            "the settings of one model, not models."
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the cases, a row each."""
        header = ["model", "steps", "L x batch", "ms a text", "passes", "GFLOP", "MiB"]
        far = any(c.mauve is not None for c in self.cases)
        header += ["gen. PPL", "entropy", *["MAUVE"] * far, "reverse process"]
        kinds = {c.checkpoint: c.objective for c in self.cases}
        alone = len(set(kinds.values())) == len(kinds)  # does an objective name the checkpoint?
        rows = [
            [
                f"{c.objective if alone else Path(c.checkpoint).name}, {c.sampler}{c.way}",
                "" if c.steps is None else str(c.steps),
                f"{c.length} x {c.batch}",
                f"{1000 * c.seconds_per_text:.1f}",
                f"{c.nfe:.1f}",
                f"{c.gflops_per_text:.2f}",
                mib(c.peak_memory_mib),
                number(c.generative_ppl),
                number(c.entropy),
                *[number(c.mauve)] * far,
                "yes" if c.exact else "",
            ]
            for c in self.cases
        ]
        return header, rows

    def text(self) -> str:
        return markdown_table(*self.table())

    def panels(self, short: Callable[[str], Path] | None = None) -> dict[str, list[Line]]:
        """What a judge found in all cases, each figure against tokens a second."""
        if self.judge is None:
            return {}
        return {
            title: self.lines(name, short)
            for title, name in PANELS.items()
            if self.cases and all(getattr(c, name) is not None for c in self.cases)
        }

    def lines(self, name: str, short: Callable[[str], Path] | None = None) -> list[Line]:
        """One figure against tokens a second, the points of each model; then real texts."""
        lines = []
        for runs in self.models():
            mine = [c for c in self.cases if c.checkpoint in runs]
            if not mine:
                continue
            alone = short(runs[0]).name if short else f"{mine[0].objective}: {runs[0]}"
            label = alone if len(runs) == 1 else name_of(runs)
            x, y = ([c.tokens_per_s for c in mine], [getattr(c, name) for c in mine])
            lines.append(Line(label, x, y, ringed=[c.exact for c in mine]))
        if (level := getattr(self.real, name, None)) is not None:
            speeds = [c.tokens_per_s for c in self.cases]
            ends = [min(speeds), max(speeds)]
            lines.append(Line("real texts", ends, [level, level], dashed=True))
        return lines

    def models(self) -> list[list[str]]:
        """The runs, those together that have one configuration but for its seed."""
        alike: dict[str, list[str]] = {}
        for run in self.checkpoints:
            key = run
            if run in self.configs:
                config = from_dict(self.configs[run])
                key = repr(replace(config, train=replace(config.train, seed=0)))
            alike.setdefault(key, []).append(run)
        return list(alike.values())

    def draw(self, path: Path) -> None:
        """Draw quality against speed."""
        curves(path, self.panels(), SPEED, "", log_x=True, log_y=LOGARITHMIC)


def name_of(runs: list[str]) -> str:
    """What several seeds of one model are called.

    Example:
        >>> name_of(["runs/mdlm-seed0", "runs/mdlm-seed1"])
        'mdlm, 2 seeds'
    """
    names = dict.fromkeys(SEED.sub("", Path(run).name) for run in runs)
    return f"{' and '.join(names)}, {len(runs)} seeds"
