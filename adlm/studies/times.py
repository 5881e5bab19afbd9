"""How does a masked diffusion model learn best? One setting of laptop-mdlm changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies.anchoring import budget

BELL = "bell, flat"
BOUND = "the bound"
SHOWN = (BOUND, "uniform, flat", "uniform, clamp 1.5", BELL, "bell, clamp 1.5", "bell 0.5, 0.3")


def variants() -> dict[str, Config]:
    """Label -> configuration."""
    base = recipe("laptop-mdlm")
    base = replace(base, process=replace(base.process, times="bell:0.5:0.2", weight="flat"))

    def process(**changes: Any) -> Config:
        return replace(base, process=replace(base.process, **changes))

    def optim(**changes: Any) -> Config:
        return replace(base, optim=replace(base.optim, **changes))

    return {
        BOUND: process(times="stratified", weight="bound"),
        "uniform, flat": process(times="stratified"),
        "uniform, clamp 1.5": process(times="stratified", weight="clamp:1.5"),
        BELL: base,
        "bell, clamp 1.5": process(weight="clamp:1.5"),
        "bell, bernoulli": process(masking="bernoulli"),
        **{f"bell 0.5, {w}": process(times=f"bell:0.5:{w}") for w in (0.1, 0.3)},
        **{f"bell {c}, 0.2": process(times=f"bell:{c}:0.2") for c in (0.4, 0.6, 0.7)},
        **{f"lr {lr:g}": optim(lr=lr) for lr in (0.005, 0.02)},
        **{f"muon lr {lr:g}": optim(muon_lr=lr) for lr in (0.01, 0.04)},
        **{f"batch {n}": replace(base, train=replace(base.train, batch=n)) for n in (16, 64)},
    }


def rows(tokens: int) -> dict[str, Config]:
    """All variants at one number of training tokens."""
    return {name: budget(config, tokens) for name, config in variants().items()}
