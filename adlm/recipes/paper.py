"""The published rows on LM1B and OpenWebText, with their settings.

MDLM's trunk is the published DiT: adaLN with a time embedding that is fed a constant, dropout 0.1
but none in attention. Starting weights and rows are the published ones, too.
"262B tokens" in the paper's tables is one million steps of 512 x 1024 tokens, of which half are
masked on average; AR rows have half the steps for the same count.
"""

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
from adlm.models.size import resize
from adlm.registry import register

LM1B = DataConfig(name="lm1b", tokenizer="bert", length=128, packing="document", compat=True)
OWT = DataConfig(name="openwebtext", tokenizer="gpt2", length=1024, compat=True)
OPTIM = OptimConfig(
    name="adamw", lr=3e-4, betas=(0.9, 0.999), warmup=2500, decay="constant", clip=1.0, ema=0.9999
)
PROCESS = ProcessConfig(masking="bernoulli", times="stratified", eps=1e-3)


def diffusion(data: DataConfig, steps: int) -> Config:
    model = ModelConfig(width=768, blocks=12, heads=12, time=128, dropout=0.1, init="published")
    return Config("mdlm", data, model, process=PROCESS, optim=OPTIM, train=schedule(steps))


def autoregressive(data: DataConfig, steps: int) -> Config:
    model = ModelConfig(width=768, blocks=12, heads=12, dropout=0.1, init="published")
    return Config("ar", data, model, process=PROCESS, optim=OPTIM, train=schedule(steps))


def published(config: Config, objective: str) -> Config:
    """Anchor as published: 12 blocks of anchor network and 6 of denoiser, gamma 3e-3, tau 5."""
    model = replace(config.model, anchor_blocks=12, blocks=6)
    anchor = AnchorConfig(gamma=3e-3, tau=5, warmup=0.003, positions="all", compat=True)
    return replace(config, objective=objective, model=model, anchor=anchor)


def schedule(steps: int) -> TrainConfig:
    return TrainConfig(
        steps=steps, batch=512, precision="bf16", log_every=100, eval_every=10_000, save_every=5_000
    )


@register("recipe", "lm1b-mdlm")
def lm1b_mdlm() -> Config:
    """MDLM on One Billion Words, 33B tokens as the paper counts."""
    return diffusion(LM1B, 1_000_000)


@register("recipe", "lm1b-ar")
def lm1b_ar() -> Config:
    """AR on One Billion Words, 33B tokens."""
    return autoregressive(LM1B, 500_000)


@register("recipe", "owt-mdlm")
def owt_mdlm() -> Config:
    """MDLM on OpenWebText, 262B tokens as the paper counts."""
    return diffusion(OWT, 1_000_000)


@register("recipe", "owt-ar")
def owt_ar() -> Config:
    """AR on OpenWebText, 262B tokens."""
    return autoregressive(OWT, 500_000)


@register("recipe", "lm1b-adlm")
def lm1b_adlm() -> Config:
    """ADLM on One Billion Words, 33B tokens as the paper counts."""
    return published(lm1b_mdlm(), "adlm")


@register("recipe", "owt-adlm")
def owt_adlm() -> Config:
    """ADLM on OpenWebText, 262B tokens as the paper counts."""
    return published(owt_mdlm(), "adlm")


@register("recipe", "owt-a2r")
def owt_a2r() -> Config:
    """A2R on OpenWebText, 262B tokens."""
    return published(owt_ar(), "a2r")


@register("recipe", "owt-adlm-medium")
def owt_adlm_medium() -> Config:
    """ADLM on OpenWebText at medium size: 24 blocks of anchor network, 12 of denoiser."""
    return resize(owt_adlm(), "medium")


@register("recipe", "owt-adlm-xl")
def owt_adlm_xl() -> Config:
    """ADLM of 1.3 billion parameters on OpenWebText: for a cluster, see docs/data.md."""
    config = owt_adlm()
    model = replace(config.model, width=2048, heads=16)
    return replace(config, model=model, optim=replace(config.optim, lr=1.5e-4))
