"""What settings follow from what a text is for; `adlm eval efficiency` is where they come from.

    exact  the model's own distribution, by its reverse process: every sampler's reference
    best   texts that a judge finds likeliest while they still vary: remasking
    fast   the fewest positions passed: a threshold, the dual cache, anchors every few steps

Only what a checkpoint has a choice of is changed: AR has one way to write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adlm.config import Config
from adlm.errors import UserError
from adlm.samplers.cache import CacheSettings

if TYPE_CHECKING:
    from adlm.samplers.generate import SamplingSettings

THRESHOLD = 0.6  # of `fast`
ANCHORS = 4  # steps between two passes of an anchor network, of `fast`


def toward(
    settings: SamplingSettings, config: Config, known: list[str], whole: bool
) -> SamplingSettings:
    """Return settings that serve their goal, for a checkpoint that has the samplers `known`.

    `whole` says whether it is a model of whole rows, which has caches to choose from.
    """
    goal = settings.goal
    if goal == "exact":
        return settings
    if settings.sampler is not None or settings.policy:
        raise UserError(f"--goal {goal} chooses the sampler: leave out --sampler and --policy")
    if goal == "best":
        return replace(settings, sampler="remdm-cap") if "remdm-cap" in known else settings
    if "confidence" not in known:
        return settings
    made = replace(settings, sampler="confidence", policy={"threshold": THRESHOLD})
    if whole and not config.model.shift and settings.cache == CacheSettings():
        made = replace(made, cache=CacheSettings("dual"))
    if config.model.anchor_blocks and not config.model.shift and settings.anchor_every == 1:
        made = replace(made, anchor_every=ANCHORS)
    return made
