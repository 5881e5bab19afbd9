"""Does anchoring help, at equal tokens, equal parameters and equal FLOPs?"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.models.cost import training_flops
from adlm.models.size import match
from adlm.recipes import recipe
from adlm.studies.language import LanguageStudy, make_study
from adlm.studies.runner import StudySettings

LONGER = {  # row -> the MDLM that is trained for as many FLOPs
    "ADLM": "MDLM, ADLM's training FLOPs",
    "deep": "MDLM, deep's training FLOPs",
}
LARGER = "MDLM, ADLM's parameters"
PAIRS = (
    ("ADLM", "MDLM"),
    ("ADLM", LARGER),
    ("ADLM", LONGER["ADLM"]),
    ("deep", "MDLM"),
    ("deep", LONGER["deep"]),
    ("A2R", "AR"),
)
SHOWN = ("AR", "A2R", "MDLM", LARGER, "ADLM", "deep")


def budget(config: Config, tokens: int) -> Config:
    """Return the recipe at a number of training tokens, evaluated at twenty points on the way."""
    a_step = config.train.batch * config.data.length
    steps = max(1, -(-tokens // a_step))
    every = max(1, steps // 20)
    train = replace(
        config.train, steps=steps, eval_every=every, eval_rows=512, save_every=every, keep=1
    )
    return replace(config, train=train)


def rows(tokens: int) -> dict[str, Config]:
    """The laptop recipes at equal tokens, and MDLM at ADLM's parameters and at others' FLOPs."""
    names = {"AR": "ar", "A2R": "a2r", "MDLM": "mdlm", "ADLM": "adlm", "deep": "deep"}
    made = {row: recipe(f"laptop-{name}") for row, name in names.items()}
    size = open_vocab(made["MDLM"].data).size
    made[LARGER] = match(made["ADLM"], size, by="params")
    out = {name: budget(config, tokens) for name, config in made.items()}
    for name, row in LONGER.items():
        out[row] = at_flops(made["MDLM"], made[name], tokens)
    return out


def at_flops(config: Config, other: Config, tokens: int) -> Config:
    """Return a recipe trained for as many FLOPs as another takes for so many tokens."""
    size = open_vocab(config.data).size
    more = training_flops(other, size) / training_flops(config, size)
    return budget(config, round(more * tokens))


def study(settings: StudySettings) -> LanguageStudy:
    """Return all rows over seeds, and the pairs that answer the question."""
    return make_study("anchoring", rows(settings.tokens), settings, PAIRS, SHOWN)
