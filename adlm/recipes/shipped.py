"""The models that are shipped with the project, see `make pretrained`.

With a vocabulary of 8192 most words are one token, 93 % of those of the corpus; two pieces that do
not fit can make a word that is none, which a nucleus makes rare. All three have one trunk: it
writes by itself (AR), fills holes with text on both sides (MDLM), or writes in blocks of four
(BD3-LM, which begins with MDLM's weights, as its authors' does).
"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config, DataConfig, ModelConfig, TrainConfig
from adlm.recipes.laptop import laptop_mdlm
from adlm.registry import register


@register("recipe", "shipped-mdlm")
def shipped_mdlm() -> Config:
    """The shipped MDLM, which fills holes: about 20 million tokens, ten times the corpus."""
    model = ModelConfig(width=192, blocks=4, heads=6, conv=5, qk_norm=True, tied=True)
    return replace(
        laptop_mdlm(),
        data=DataConfig(name="sotu", tokenizer="bpe:8192", length=128),
        model=model,
        train=TrainConfig(
            steps=10_000, batch=16, precision="bf16", eval_every=100, eval_rows=64, save_every=50
        ),
    )


@register("recipe", "shipped-bd3lm")
def shipped_bd3lm() -> Config:
    """The shipped block diffusion in blocks of four, made of shipped-mdlm (--base)."""
    mdlm = shipped_mdlm()
    made = replace(mdlm, objective="bd3lm", process=replace(mdlm.process, block=4))
    return with_steps(made, 5000)


@register("recipe", "shipped-ar")
def shipped_ar() -> Config:
    """The shipped autoregressive model, their twin."""
    return with_steps(replace(shipped_mdlm(), objective="ar"), 4000)


def with_steps(config: Config, steps: int) -> Config:
    return replace(config, train=replace(config.train, steps=steps))
