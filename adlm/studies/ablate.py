"""What of anchoring matters: one setting of laptop-adlm, the paper's system, changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.models.size import match
from adlm.recipes import recipe
from adlm.recipes.laptop import BRIDGE_LR
from adlm.studies.anchoring import budget
from adlm.studies.language import LanguageStudy, make_study
from adlm.studies.runner import StudySettings

AXES = [
    "gamma", "tau", "rule", "positions", "until", "every", "rare", "bridge", "rate", "shared",
    "depth",
]  # fmt: skip

# AdamW's rate for each bridge's matrix: the linear one adds up V logits, the softmax one has
# embeddings, which the usual rate suits
RATES = {"linear": BRIDGE_LR, "softmax": 0.0, "embedding": 0.0, "hidden": 1e-3}


def axes() -> dict[str, dict[str, Config]]:
    """axis -> label -> configuration."""
    base = recipe("laptop-adlm")
    depth = base.model.blocks + base.model.anchor_blocks

    def anchor(config: Config = base, **changes: Any) -> Config:
        return replace(config, anchor=replace(config.anchor, **changes))

    def model(**changes: Any) -> Config:
        rate = RATES[changes.get("bridge", base.model.bridge)]
        optim = replace(base.optim, bridge_lr=rate)
        return replace(base, model=replace(base.model, **changes), optim=optim)

    def rate(lr: float) -> Config:
        return replace(base, optim=replace(base.optim, bridge_lr=lr))

    return {
        "gamma": {
            f"gamma {g:g}{', fading' if fade else ''}": anchor(gamma=g, fade=fade)
            for g, fade in ((0, 0), (3e-3, 0), (0.03, 0), (0.3, 0), (1.0, 0), (1.0, True))
        },
        "tau": {f"tau {t}": anchor(tau=t) for t in (1, 2, 5, 20)},
        "rule": {f"rule {r}": anchor(rule=r) for r in ("count", "corpus", "tfidf", "all")},
        "positions": {f"positions {p}": anchor(positions=p) for p in ("masked", "all")},
        "until": {
            f"gamma 1, fading until {share:g}": anchor(gamma=1.0, fade=True, until=share)
            for share in (0.5, 0.25)
        },
        "every": {"one position in 4": anchor(every=4)},
        "rare": {  # the rarest 30 % of all tokens, with more weight
            f"rule corpus, gamma {g:g}": anchor(rule="corpus", gamma=g) for g in (1.0, 3.0)
        },
        "bridge": {
            f"bridge {name}{', residual' if residual else ''}": model(
                bridge=name, residual=residual
            )
            for name in RATES
            for residual in (False, True)
        },
        "rate": {f"bridge rate {lr:g}": rate(lr) for lr in (3e-5, BRIDGE_LR, 3e-4, 1e-3)},
        "shared": {"anchor head shared": model(shared=True)},
        "depth": {
            f"depth {a} + {depth - a}": model(anchor_blocks=a, blocks=depth - a)
            for a in range(1, depth)
        },
    }


def rows(wanted: list[str], tokens: int) -> dict[str, Config]:
    """laptop-adlm, its plain controls, and the rows of the chosen axes that differ from it.

    `axis=word` takes only the rows of an axis whose label has the word.
    """
    known = axes()
    first = recipe("laptop-adlm")
    made = {
        "MDLM": recipe("laptop-mdlm"),
        "MDLM, ADLM's parameters": match(first, open_vocab(first.data).size),
        "ADLM": first,
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


def study(wanted: list[str], settings: StudySettings) -> LanguageStudy:
    """Return the rows of the chosen axes, over seeds."""
    return make_study("ablation", rows(wanted, settings.tokens), settings)
