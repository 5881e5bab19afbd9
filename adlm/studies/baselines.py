"""Who is ahead: every baseline of the paper's tables, and anchoring over them.

All of them at equal tokens; where one that takes more FLOPs is ahead or level, a row more compares
at equal FLOPs.
"""

from __future__ import annotations

from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies import anchoring
from adlm.studies.anchoring import at_flops, budget
from adlm.studies.language import LanguageStudy, make_study
from adlm.studies.runner import StudySettings

RECIPES = {  # row -> recipe, the ones that a conclusion rests on first
    "MDLM": "laptop-mdlm",
    "ADLM": "laptop-adlm",
    "BD3-LM (4)": "laptop-bd3lm",
    "BD3-LM (4), anchored": "laptop-bd3lm-anchored",
    "AR": "laptop-ar",
    "SEDD": "laptop-sedd",
    "SEDD, anchored": "laptop-sedd-anchored",
    "SEDD, uniform": "laptop-sedd-uniform",
    "D3PM": "laptop-d3pm",
    "UDLM": "laptop-udlm",
    "Duo": "laptop-duo",
    "GIDD": "laptop-gidd",
    "GIDD, anchored": "laptop-gidd-anchored",
}
AS_MANY = "BD3-LM (4), MDLM's training FLOPs"
EQUAL_FLOPS = {  # row -> (what is trained in it, for as many FLOPs as which)
    anchoring.LONGER["ADLM"]: ("MDLM", "ADLM"),
    AS_MANY: ("BD3-LM (4)", "MDLM"),
}
PAIRS = (
    ("ADLM", "MDLM"),
    ("ADLM", anchoring.LONGER["ADLM"]),
    ("BD3-LM (4)", "MDLM"),
    (AS_MANY, "MDLM"),
    ("BD3-LM (4), anchored", "BD3-LM (4)"),
    ("SEDD, anchored", "SEDD"),
    ("GIDD, anchored", "GIDD"),
)
SHOWN = ("AR", "MDLM", "ADLM", "BD3-LM (4)", "BD3-LM (4), anchored", "SEDD")


def rows(tokens: int) -> dict[str, Config]:
    """Return each recipe at one number of training tokens, and what is compared by FLOPs."""
    made = {row: recipe(name) for row, name in RECIPES.items()}
    out = {row: budget(config, tokens) for row, config in made.items()}
    for row, (own, other) in EQUAL_FLOPS.items():
        out[row] = at_flops(made[own], made[other], tokens)
    return out


def study(settings: StudySettings) -> LanguageStudy:
    """Return all rows over seeds, and what anchoring does to each base."""
    return make_study("baselines", rows(settings.tokens), settings, PAIRS, SHOWN)
