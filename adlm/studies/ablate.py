"""What of anchoring matters: one setting changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.models.sizes import match
from adlm.recipes import recipe
from adlm.studies.anchoring import basic, budget, shared

# AdamW's rate for each bridge's matrix: the linear one adds up V logits, the softmax one has
# embeddings, which the usual rate suits
BRIDGE_LR = {"linear": 1e-4, "softmax": 0.0, "embedding": 0.0, "hidden": 1e-3}


def axes() -> dict[str, dict[str, Config]]:
    """axis -> label -> configuration."""
    base = basic()

    def anchor(**changes: Any) -> Config:
        return replace(base, anchor=replace(base.anchor, **changes))

    def model(config: Config = base, **changes: Any) -> Config:
        return replace(config, model=replace(config.model, **changes))

    def bridge(name: str, residual: bool) -> Config:
        optim = replace(base.optim, bridge_lr=BRIDGE_LR[name])
        return replace(model(bridge=name, residual=residual), optim=optim)

    def lean(**changes: Any) -> Config:
        return shared(anchor(**changes))

    def hidden(config: Config) -> Config:
        """Nothing goes through the vocabulary on the way: MDLM's FLOPs as well."""
        optim = replace(config.optim, bridge_lr=BRIDGE_LR["hidden"])
        return replace(model(config, bridge="hidden"), optim=optim)

    both = "anchor head shared, fading"
    depth = base.model.blocks + base.model.anchor_blocks
    return {
        "gamma": {
            f"gamma {g:g}{', fading' if fade else ''}": anchor(gamma=g, fade=fade)
            for g, fade in ((0.0, False), (0.02, False), (0.2, False), (1.0, True), (3.0, True))
        },
        "tau": {f"tau {t}": anchor(tau=t) for t in (1, 2, 5, 20)},
        "rule": {
            f"rule {r}": anchor(rule=r) for r in ("count", "frequency", "corpus", "tfidf", "all")
        },
        "positions": {f"positions {p}": anchor(positions=p) for p in ("masked", "all")},
        "bridge": {
            f"bridge {name}{', residual' if residual else ''}": bridge(name, residual)
            for name in BRIDGE_LR
            for residual in (False, True)
        },
        # the anchor head is the input embedding: as many parameters as MDLM
        "shared": {
            "anchor head shared": model(shared=True),
            both: lean(),
            f"{both}, hidden bridge": hidden(lean()),
            f"{both}, all positions": lean(positions="all"),
            f"{both}, all positions, gamma 3": lean(positions="all", gamma=3.0),
            f"{both}, all positions, rule all": lean(positions="all", rule="all"),
            f"{both}, all positions, hidden bridge": hidden(lean(positions="all")),
        },
        "every": {
            f"laptop-adlm, anchor loss at one position in {k}": hidden(
                lean(positions="all", every=k)
            )
            for k in (4, 8)
        },
        "until": {
            f"laptop-adlm, anchor loss until {share:g} of the training": hidden(
                lean(positions="all", until=share)
            )
            for share in (0.5, 0.25, 0.1)
        },
        "depth": {
            f"depth {a} + {depth - a}": model(anchor_blocks=a, blocks=depth - a)
            for a in range(1, depth)
        },
        "conv": {
            f"{name}, no convolution": model(config, conv=0)
            for name, config in (("MDLM", recipe("laptop-mdlm")), ("ADLM", base))
        },
    }


def rows(wanted: list[str], tokens: int) -> dict[str, Config]:
    """The basic ADLM, its plain controls, and the rows of the chosen axes that differ from it.

    `axis=word` takes only the rows of an axis whose label has the word.
    """
    known = axes()
    first = basic()
    made = {
        "MDLM": recipe("laptop-mdlm"),
        "MDLM, larger": match(first, open_vocab(first.data).size),
        "ADLM, basic": first,
    }
    for entry in wanted:
        name, _, word = entry.partition("=")
        if name not in known:
            raise UserError(f"there is no axis '{name}'{nearest(name, known)}")
        found = {k: c for k, c in known[name].items() if word in k}
        if not found:
            raise UserError(f"the axis {name} has no row with '{word}': {', '.join(known[name])}")
        made |= {k: c for k, c in found.items() if c not in made.values()}
    return {label: budget(config, tokens) for label, config in made.items()}
