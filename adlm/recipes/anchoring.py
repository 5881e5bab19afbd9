"""MDLM -> ADLM and AR -> A2R: the same two-line change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adlm.config import AnchorConfig, Config
from adlm.errors import UserError


def anchored(
    config: Config,
    objective: str,
    anchor: AnchorConfig | None = None,
    front: int | None = None,
    **model: Any,
) -> Config:
    """Return the anchored form of a recipe with the same number of blocks in all.

    `front` of them are the anchor network's; by default two thirds, so that the denoiser has half
    its depth, as in the paper. `model` are further changes of the network.

    Example:
        >>> from adlm.config import ModelConfig
        >>> made = anchored(Config(model=ModelConfig(blocks=6)), "adlm").model
        >>> made.anchor_blocks, made.blocks
        (4, 2)
    """
    blocks = config.model.blocks
    front = blocks - blocks // 3 if front is None else front
    if not 0 < front < blocks:
        raise UserError(f"model.blocks {blocks} leaves no block for the denoiser")
    made = replace(config.model, anchor_blocks=front, blocks=blocks - front, **model)
    return replace(config, objective=objective, model=made, anchor=anchor or config.anchor)
