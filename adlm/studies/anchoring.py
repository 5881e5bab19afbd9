"""Does anchoring help, at equal tokens, against models of equal size?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adlm.config import AnchorConfig, Config
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.models.sizes import match, training_flops
from adlm.recipes import recipe
from adlm.recipes.anchoring import anchored

THINNED = "ADLM, anchor loss thinned"
EARLY = "ADLM, anchor loss in the first quarter"
LONGER = {  # row -> the MDLM that is trained for as many FLOPs
    "ADLM": "MDLM, ADLM's training FLOPs",
    THINNED: "MDLM, thinned or early ADLM's training FLOPs",
}
LONGER[EARLY] = LONGER[THINNED]  # a quarter of the loss in either
PAIRS = (
    ("ADLM", "MDLM"),
    ("ADLM", "MDLM, larger"),
    ("ADLM as published", "MDLM, larger"),
    (THINNED, "MDLM"),
    (EARLY, "MDLM"),
    (EARLY, "MDLM, larger"),
    *LONGER.items(),
)


def budget(config: Config, tokens: int) -> Config:
    """The recipe at a number of training tokens, evaluated at twenty points on the way."""
    a_step = config.train.batch * config.data.length
    steps = max(1, -(-tokens // a_step))
    every = max(1, steps // 20)
    train = replace(
        config.train, steps=steps, eval_every=every, eval_rows=512, save_every=every, keep=1
    )
    return replace(config, train=train)


def chosen(rows: dict[str, Config], only: Sequence[str]) -> dict[str, Config]:
    """The rows of these names, or all."""
    for name in only:
        if name not in rows:
            raise UserError(f"the study has no row '{name}'{nearest(name, rows)}")
    return {name: config for name, config in rows.items() if name in (only or rows)}


def basic() -> Config:
    """A simpler ADLM: a head of its own, embedding bridge, constant gamma, masked anchors."""
    anchor = AnchorConfig(gamma=1.0)
    network: dict[str, Any] = {"front": 1, "bridge": "embedding", "residual": True}
    return anchored(recipe("laptop-mdlm"), "adlm", anchor, **network)


def published() -> Config:
    """The published network and loss at the laptop's size; the linear bridge has its own rate."""
    anchor = AnchorConfig(gamma=3e-3, positions="all")
    made = anchored(recipe("laptop-mdlm"), "adlm", anchor, bridge="linear")
    return replace(made, optim=replace(made.optim, bridge_lr=1e-4))


def shared(config: Config) -> Config:
    """The input embedding as anchor head, so no more parameters than the plain model's; fading."""
    model = replace(config.model, shared=True)
    return replace(config, model=model, anchor=replace(config.anchor, fade=True))


def thinned(config: Config) -> Config:
    """The anchor loss at one position in four: a training step costs little more than MDLM's."""
    return replace(config, anchor=replace(config.anchor, every=4))


def early(config: Config) -> Config:
    """The anchor loss in the first quarter of the training: later steps cost about MDLM's."""
    return replace(config, anchor=replace(config.anchor, until=0.25))


def rows(tokens: int, only: Sequence[str] = ()) -> dict[str, Config]:
    """The rows of the study. MDLM has ADLM's parameters, the larger one those of the basic ADLM.

    All have the same number of tokens; further MDLMs are trained for as many FLOPs as ADLM.
    `only` leaves out all but those.
    """
    mdlm, adlm, a2r, first = *map(recipe, ("laptop-mdlm", "laptop-adlm", "laptop-a2r")), basic()
    vocab = open_vocab(first.data)
    made = {
        "AR": recipe("laptop-ar"),
        "AR, larger": match(a2r, vocab.size, by="params"),
        "A2R": a2r,
        "A2R, shared head, gamma fading": shared(a2r),
        "MDLM": mdlm,
        "MDLM, larger": match(first, vocab.size, by="params"),
        "ADLM as published": published(),
        "ADLM, basic, gamma 0": replace(first, anchor=replace(first.anchor, gamma=0.0)),
        "ADLM, basic": first,
        "ADLM, basic, shared head, gamma fading": shared(first),
        "ADLM": adlm,
        THINNED: thinned(adlm),
        EARLY: early(adlm),
    }
    out = {name: budget(config, tokens) for name, config in made.items()}
    for name, longer in LONGER.items():
        more = training_flops(made[name], vocab.size) / training_flops(mdlm, vocab.size)
        out[longer] = budget(mdlm, round(more * tokens))
    return chosen(out, only)


def seeds(names: list[str], most: int) -> dict[str, int]:
    """Masked diffusion and its main anchored forms get all; others one fewer."""
    fewer = {n for n in names if not n.startswith(("ADLM", "MDLM"))}
    fewer |= {"ADLM as published", "ADLM, basic, gamma 0", THINNED}
    return {name: max(1, most - (name in fewer)) for name in names}
