"""Minutes on two cores, on the default corpus."""

from __future__ import annotations

from dataclasses import replace

from adlm.config import AnchorConfig, Config, DataConfig, ModelConfig, OptimConfig, TrainConfig
from adlm.recipes.anchoring import anchored
from adlm.registry import register


@register("recipe", "laptop-mdlm")
def laptop_mdlm() -> Config:
    """MDLM with Muon, a short convolution and normalised queries and keys."""
    return Config(
        objective="mdlm",
        data=DataConfig(name="sotu", tokenizer="bpe:2048", length=64),
        model=ModelConfig(width=128, blocks=3, heads=4, conv=5, qk_norm=True),
        optim=OptimConfig(lr=0.01, ema=0.98),
        train=TrainConfig(steps=1300, batch=32, eval_every=100, save_every=100),
    )


@register("recipe", "laptop-ar")
def laptop_ar() -> Config:
    """The same trunk, causal, at the same budget."""
    return replace(laptop_mdlm(), objective="ar")


@register("recipe", "laptop-adlm")
def laptop_adlm() -> Config:
    """ADLM at MDLM's parameters: one block in front, the embedding as anchor head, gamma fading."""
    mdlm = laptop_mdlm()
    anchor = AnchorConfig(gamma=1.0, fade=True, positions="all")
    made = anchored(mdlm, "adlm", anchor, front=1, bridge="hidden", residual=True, shared=True)
    return replace(made, optim=replace(mdlm.optim, bridge_lr=1e-3))


@register("recipe", "laptop-a2r")
def laptop_a2r() -> Config:
    """A2R: one block in front, with a head of its own, and the embedding bridge."""
    anchor = AnchorConfig(gamma=0.2)
    return anchored(laptop_ar(), "a2r", anchor, front=1, bridge="embedding", residual=True)
