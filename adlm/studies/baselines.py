"""Who is ahead: every baseline of the paper's tables, and anchoring over them.

All of them at equal tokens; where one that takes more FLOPs may be ahead, the one that it is
compared with stands there once more, trained for as many.
"""

from __future__ import annotations

from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies import anchoring
from adlm.studies.anchoring import budget, longer
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
LONGER = {  # row -> (the one it is compared with, the name of that one trained for as many FLOPs)
    "ADLM": ("MDLM", anchoring.LONGER["ADLM"]),
    "BD3-LM (4)": ("MDLM", "MDLM, BD3-LM's training FLOPs"),
    "BD3-LM (4), anchored": ("BD3-LM (4)", "BD3-LM (4), its anchored form's training FLOPs"),
}
PAIRS = (
    *((row, other) for row, pair in LONGER.items() for other in pair),
    ("SEDD, anchored", "SEDD"),
    ("GIDD, anchored", "GIDD"),
)
SHOWN = ("AR", "MDLM", "ADLM", "BD3-LM (4)", "BD3-LM (4), anchored", "SEDD")


def rows(tokens: int) -> dict[str, Config]:
    """Return each recipe at one number of training tokens, and three at others' FLOPs."""
    made = {row: recipe(name) for row, name in RECIPES.items()}
    out = {row: budget(config, tokens) for row, config in made.items()}
    more = {name: longer(made[base], made[row], tokens) for row, (base, name) in LONGER.items()}
    return {**out, **more}


def study(settings: StudySettings) -> LanguageStudy:
    """Return all rows over seeds, and what anchoring does to each base."""
    return make_study("baselines", rows(settings.tokens), settings, PAIRS, SHOWN)
