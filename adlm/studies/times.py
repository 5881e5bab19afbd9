"""How does a masked diffusion model learn best?

Three rounds: one setting changed at a time from where the recipes were, then the learning rates and
the width of the bell together around what the first round found, for AR too, and last the batch and
a clamped weight at what the second one chose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies.anchoring import budget
from adlm.studies.language import LanguageStudy, make_study
from adlm.studies.runner import StudySettings

BELL = "bell, flat"
BOUND = "the bound"
SHOWN = (BOUND, "uniform, flat", "uniform, clamp 1.5", BELL, "bell, clamp 1.5", "bell 0.5, 0.3")


def first_round() -> dict[str, Config]:
    """Label -> configuration: one setting changed at a time."""
    base = tuned(recipe("laptop-mdlm"), 0.01, 0.02, 0.2)

    def process(**changes: Any) -> Config:
        return replace(base, process=replace(base.process, **changes))

    return {
        BOUND: process(times="stratified", weight="bound"),
        "uniform, flat": process(times="stratified"),
        "uniform, clamp 1.5": process(times="stratified", weight="clamp:1.5"),
        BELL: base,
        "bell, clamp 1.5": process(weight="clamp:1.5"),
        "bell, bernoulli": process(masking="bernoulli"),
        **{f"bell 0.5, {w}": process(times=f"bell:0.5:{w}") for w in (0.1, 0.3)},
        **{f"bell {c}, 0.2": process(times=f"bell:{c}:0.2") for c in (0.4, 0.6, 0.7)},
        **{f"lr {lr:g}": tuned(base, lr, 0.02, 0.2) for lr in (0.005, 0.02)},
        **{f"muon lr {lr:g}": tuned(base, 0.01, lr, 0.2) for lr in (0.01, 0.04)},
        **{f"batch {n}": replace(base, train=replace(base.train, batch=n)) for n in (16, 64)},
    }


def second_round() -> dict[str, Config]:
    """Label -> configuration: both learning rates and the bell's width together; AR's rates."""
    rates = [(0.02, 0.01), (0.04, 0.01), (0.02, 0.005), (0.04, 0.005), (0.08, 0.01)]
    mdlm, ar = recipe("laptop-mdlm"), recipe("laptop-ar")
    made = {
        f"lr {lr:g}, muon lr {muon:g}, bell 0.5, {width}": tuned(mdlm, lr, muon, width)
        for width, some in ((0.1, rates), (0.2, rates[:1]), (0.05, rates[1:2]))
        for lr, muon in some
    }
    made |= {
        f"AR, lr {lr:g}, muon lr {muon:g}": tuned(ar, lr, muon, 0.2)
        for lr, muon in [(0.01, 0.02), *rates[:2], rates[3]]
    }
    return made


def third_round() -> dict[str, Config]:
    """Label -> configuration: what is left, around the recipe as it is now."""
    base = recipe("laptop-mdlm")

    def clamped(most: float) -> Config:
        return replace(base, process=replace(base.process, weight=f"clamp:{most:g}"))

    made = {f"recipe, clamp {most:g}": clamped(most) for most in (1.5, 3.0)}
    smaller = replace(base, train=replace(base.train, batch=16))
    return made | {"recipe, batch 16": smaller}


def tuned(config: Config, lr: float, muon_lr: float, width: float) -> Config:
    """Return a recipe at two learning rates and a width of the bell."""
    process = replace(config.process, times=f"bell:0.5:{width}", weight="flat")
    return replace(config, process=process, optim=replace(config.optim, lr=lr, muon_lr=muon_lr))


def rows(tokens: int) -> dict[str, Config]:
    """All rounds at one number of training tokens."""
    variants = first_round() | second_round() | third_round()
    return {name: budget(config, tokens) for name, config in variants.items()}


def study(settings: StudySettings) -> LanguageStudy:
    """All rounds over seeds."""
    return make_study("times", rows(settings.tokens), settings, shown=SHOWN)
