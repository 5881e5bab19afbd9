"""How does each baseline learn best?

Bell-shaped times and equal weights halve MDLM's perplexity (`study times`). Each baseline is
offered the same before it is compared: its published training beside others, chosen by validation.
"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config, ProcessConfig
from adlm.recipes import baselines, recipe
from adlm.studies.anchoring import budget
from adlm.studies.language import LanguageStudy, make_study
from adlm.studies.runner import StudySettings

NARROW, WIDE = "bell:0.5:0.1", "bell:0.5:0.2"
SHOWN = (
    "BD3-LM (4), bound",
    "BD3-LM (4), flat",
    "SEDD, bound",
    "SEDD, bell, flat",
    "UDLM, bound",
    "UDLM, clamp 1.5",
)


def processes() -> dict[str, dict[str, ProcessConfig]]:
    """Recipe -> label -> process: the published one first."""
    block, udlm, gidd = ProcessConfig(block=4), baselines.UDLM, baselines.GIDD
    return {
        "bd3lm": {
            "BD3-LM (4), bound": block,
            "BD3-LM (4), clip": replace(block, masking="bernoulli", clip=(0.45, 0.95)),
            "BD3-LM (4), flat": replace(block, weight="flat"),
            "BD3-LM (4), bell 0.2, flat": replace(block, times=WIDE, weight="flat"),
            "BD3-LM (4), bell 0.1, flat": replace(block, times=NARROW, weight="flat"),
        },
        "sedd": {
            "SEDD, bound": baselines.SEDD,
            "SEDD, bell, flat": replace(baselines.SEDD, times=NARROW, weight="flat"),
        },
        "d3pm": {
            "D3PM, bound": baselines.D3PM,
            "D3PM, bell, flat": replace(baselines.D3PM, times=NARROW, weight="flat"),
        },
        "udlm": {
            "UDLM, bound": udlm,
            "UDLM, clamp 1.5": replace(udlm, weight="clamp:1.5"),
            "UDLM, bell, clamp 1.5": replace(udlm, times=NARROW, weight="clamp:1.5"),
        },
        "gidd": {"GIDD, dynamic": gidd, "GIDD, bell, dynamic": replace(gidd, times=NARROW)},
    }


def rows(tokens: int) -> dict[str, Config]:
    """All variants at one number of training tokens."""
    return {
        label: budget(replace(recipe(f"laptop-{name}"), process=process), tokens)
        for name, some in processes().items()
        for label, process in some.items()
    }


def study(settings: StudySettings) -> LanguageStudy:
    """All variants over seeds."""
    return make_study("tuning", rows(settings.tokens), settings, shown=SHOWN)
