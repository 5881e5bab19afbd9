"""Who is ahead: every baseline of the paper's tables, and anchoring over them, at equal tokens."""

from __future__ import annotations

from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies.anchoring import budget
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
PAIRS = (
    ("ADLM", "MDLM"),
    ("BD3-LM (4)", "MDLM"),
    ("BD3-LM (4), anchored", "BD3-LM (4)"),
    ("SEDD, anchored", "SEDD"),
    ("GIDD, anchored", "GIDD"),
)
SHOWN = ("AR", "MDLM", "ADLM", "BD3-LM (4)", "BD3-LM (4), anchored", "SEDD")


def rows(tokens: int) -> dict[str, Config]:
    """Return each recipe at one number of training tokens; the table has their FLOPs."""
    return {row: budget(recipe(name), tokens) for row, name in RECIPES.items()}


def study(settings: StudySettings) -> LanguageStudy:
    """Return all rows over seeds, and what anchoring does to each base."""
    return make_study("baselines", rows(settings.tokens), settings, PAIRS, SHOWN)
