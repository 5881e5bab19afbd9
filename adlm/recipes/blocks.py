"""Block diffusion (BD3-LM) in blocks of four tokens, published and on a laptop, and anchored.

The published rows start from MDLM's weights after 85 % of the steps and go on with block diffusion,
its times in the interval that was searched for blocks of four.
"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import AnchorConfig, Config, ProcessConfig
from adlm.recipes.anchoring import anchored
from adlm.recipes.laptop import laptop_mdlm, slow_bridge
from adlm.recipes.paper import LM1B, OWT, diffusion
from adlm.registry import register

PUBLISHED = ProcessConfig(masking="bernoulli", block=4, clip=(0.45, 0.95))
STEPS = 150_000  # after MDLM's 850,000


@register("recipe", "laptop-bd3lm")
def laptop_bd3lm() -> Config:
    """BD3-LM in blocks of four: left to right from block to block, diffusion inside."""
    mdlm = laptop_mdlm()
    return replace(mdlm, objective="bd3lm", process=replace(mdlm.process, block=4))


@register("recipe", "laptop-bd3lm-anchored")
def laptop_bd3lm_anchored() -> Config:
    """laptop-adlm's anchoring over block diffusion."""
    anchor = AnchorConfig(gamma=0.3, positions="all")
    return slow_bridge(anchored(laptop_bd3lm(), "adlm-bd3lm", anchor, bridge="linear"))


@register("recipe", "lm1b-bd3lm")
def lm1b_bd3lm() -> Config:
    """BD3-LM on One Billion Words, joined end to end: 150,000 steps after MDLM's 850,000 (--base).

    adlm train lm1b-mdlm --data.packing wrap --train.steps 850000 --out runs/lm1b-mdlm
    adlm train lm1b-bd3lm --base runs/lm1b-mdlm --out runs/lm1b-bd3lm
    """
    data = replace(LM1B, packing="wrap")
    return replace(diffusion(data, STEPS), objective="bd3lm", process=PUBLISHED)


@register("recipe", "owt-bd3lm")
def owt_bd3lm() -> Config:
    """BD3-LM on OpenWebText: 150,000 steps after owt-mdlm's first 850,000 (--base).

    adlm train owt-mdlm --train.steps 850000 --out runs/owt-mdlm
    adlm train owt-bd3lm --base runs/owt-mdlm --out runs/owt-bd3lm
    """
    return replace(diffusion(OWT, STEPS), objective="bd3lm", process=PUBLISHED)
