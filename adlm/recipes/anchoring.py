"""MDLM -> ADLM and AR -> A2R: the same two-line change."""

from __future__ import annotations

from dataclasses import replace

from adlm.config import AnchorConfig, Config
from adlm.errors import UserError


def anchored(
    config: Config, objective: str, anchor: AnchorConfig | None = None, residual: bool = False
) -> Config:
    """The anchored form of a recipe with the same number of blocks in all.

    The denoiser has half the anchor network's depth, as in the paper.

    Example:
        >>> from adlm.config import ModelConfig
        >>> made = anchored(Config(model=ModelConfig(blocks=6)), "adlm").model
        >>> made.anchor_blocks, made.blocks
        (4, 2)
    """
    denoiser = config.model.blocks // 3
    if not denoiser:
        raise UserError(f"model.blocks {config.model.blocks} leaves no block for the denoiser")
    front = config.model.blocks - denoiser
    model = replace(config.model, anchor_blocks=front, blocks=denoiser, residual=residual)
    return replace(config, objective=objective, model=model, anchor=anchor or config.anchor)
