"""What of anchoring matters: one setting changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import Config
from adlm.errors import UserError, nearest
from adlm.recipes import recipe
from adlm.studies.anchoring import budget


def axes() -> dict[str, dict[str, Config]]:
    """axis -> label -> configuration."""
    base = recipe("laptop-adlm")

    def anchor(**changes: Any) -> Config:
        return replace(base, anchor=replace(base.anchor, **changes))

    def model(**changes: Any) -> Config:
        return replace(base, model=replace(base.model, **changes))

    depth = base.model.blocks + base.model.anchor_blocks
    return {
        "gamma": {f"gamma {g:g}": anchor(gamma=g) for g in (0.0, 3e-3, 0.03, 0.2, 1.0)},
        "tau": {f"tau {t}": anchor(tau=t) for t in (1, 2, 5, 20)},
        "rule": {
            f"rule {r}": anchor(rule=r) for r in ("count", "frequency", "corpus", "tfidf", "all")
        },
        "positions": {f"positions {p}": anchor(positions=p) for p in ("masked", "all")},
        "bridge": {
            f"bridge {b}{', residual' if r else ''}": model(bridge=b, residual=r)
            for b in ("linear", "softmax", "hidden")
            for r in (False, True)
        },
        "depth": {
            f"depth {a} + {depth - a}": model(anchor_blocks=a, blocks=depth - a)
            for a in range(1, depth)
        },
        "conv": {
            f"{name}, {'no ' if not taps else ''}convolution": replace(
                recipe(f"laptop-{name.lower()}"),
                model=replace(recipe(f"laptop-{name.lower()}").model, conv=taps),
            )
            for name in ("MDLM", "ADLM")
            for taps in (5, 0)
        },
    }


def rows(wanted: list[str], tokens: int) -> dict[str, Config]:
    """The recipe itself and the rows of the chosen axes that differ from it."""
    known = axes()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UserError(f"there is no axis '{unknown[0]}'{nearest(unknown[0], known)}")
    made = {"ADLM as in the recipe": recipe("laptop-adlm")}
    for name in wanted:
        made |= {k: c for k, c in known[name].items() if c not in made.values()}
    return {label: budget(config, tokens) for label, config in made.items()}
