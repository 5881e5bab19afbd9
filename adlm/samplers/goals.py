"""What settings follow from what a text is for; `adlm eval efficiency` is where they come from.

    exact  the model's reverse process, as it is: every sampler's reference
    best   what a judge finds likeliest while it varies: from the likeliest tokens (a nucleus), with
           remasking; block diffusion by confidence
    fast   several tokens a pass by confidence, the dual cache, anchors every few steps

Only what a checkpoint has a choice of is changed, and nothing that was asked for: AR has one way to
write.
"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config
from adlm.errors import UserError
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.samplers.settings import SamplingSettings

TOKENS, BLOCK_TOKENS = 4, 2  # written a pass by `fast`; in the short blocks of block diffusion
NUCLEUS = 0.9  # share of the probability that `best` draws from
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
    surest, keeps = "confidence" in known, whole and not config.model.recall
    if goal == "best":
        if settings.draw == Draw():
            settings = replace(settings, draw=Draw(nucleus=NUCLEUS))
        again = whole and "remdm-cap" in known
        return (
            replace(settings, sampler="remdm-cap" if again else "confidence")
            if surest
            else settings
        )
    if not surest:
        return settings
    few = max(1, config.data.length // (TOKENS if whole else BLOCK_TOKENS))
    made = replace(settings, sampler="confidence", steps=settings.steps or few)
    if keeps and not config.model.shift and settings.cache == CacheSettings():
        made = replace(made, cache=CacheSettings("dual"))
    if config.model.anchor_blocks and not config.model.shift and settings.anchor_every == 1:
        made = replace(made, anchor_every=ANCHORS)
    return made
