"""The baselines of the paper's tables: SEDD, D3PM, UDLM and GIDD, published and on a laptop.

All have MDLM's trunk, optimiser and budget, and see the noise level, as their authors' do. The
published rows minimise the bound, and GIDD's has weights of its own; on a laptop each has the times
and weights that `adlm study tuning` found best for it.
"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import AnchorConfig, Config, ProcessConfig
from adlm.recipes.anchoring import anchored
from adlm.recipes.laptop import laptop_mdlm, slow_bridge
from adlm.recipes.paper import LM1B, OPTIM, OWT, diffusion
from adlm.registry import register

SEDD = ProcessConfig(masking="bernoulli", conditioned=True, eps=1e-3)
UNIFORM = replace(SEDD, kernel="uniform", schedule="geometric", eps=0.0)
D3PM = ProcessConfig(masking="bernoulli", conditioned=True, steps=1000)
UDLM = replace(SEDD, kernel="uniform")
DUO = replace(UDLM, curriculum=0.5)
DUO_OWT = replace(DUO, softened=(-3.55, -1.85))
GIDD = replace(SEDD, kernel="mixture:0.1", weight="dynamic", eps=1e-4)
GIDD_OPTIM = replace(
    OPTIM, lr=5e-4, betas=(0.9, 0.99), warmup=10_000, decay="cosine", weight_decay=0.02
)
BELL = laptop_mdlm().process.times
LAPTOP_TIME = 32  # width of the time embedding beside 128 of the trunk


def laptop(objective: str, process: ProcessConfig) -> Config:
    """laptop-mdlm with another objective."""
    base = laptop_mdlm()
    model = replace(base.model, time=LAPTOP_TIME)
    return replace(base, objective=objective, process=process, model=model)


def small(config: Config, objective: str, process: ProcessConfig) -> Config:
    """A published row of another objective, by MDLM's."""
    return replace(config, objective=objective, process=process)


@register("recipe", "lm1b-d3pm")
def lm1b_d3pm() -> Config:
    """D3PM (absorbing, 1000 steps) on One Billion Words, at MDLM's size and budget."""
    return small(diffusion(LM1B, 1_000_000), "d3pm", D3PM)


@register("recipe", "lm1b-sedd")
def lm1b_sedd() -> Config:
    """SEDD (absorbing) on One Billion Words, 33B tokens as the paper counts."""
    return small(diffusion(LM1B, 1_000_000), "sedd", SEDD)


@register("recipe", "lm1b-sedd-uniform")
def lm1b_sedd_uniform() -> Config:
    """SEDD with uniform noise on One Billion Words."""
    return small(diffusion(LM1B, 1_000_000), "sedd", UNIFORM)


@register("recipe", "lm1b-udlm")
def lm1b_udlm() -> Config:
    """UDLM on One Billion Words, 33B tokens as the paper counts."""
    return small(diffusion(LM1B, 1_000_000), "udlm", UDLM)


@register("recipe", "lm1b-duo")
def lm1b_duo() -> Config:
    """Duo, UDLM with its curriculum in the first half, on One Billion Words."""
    return small(diffusion(LM1B, 1_000_000), "udlm", DUO)


@register("recipe", "owt-sedd")
def owt_sedd() -> Config:
    """SEDD (absorbing) on OpenWebText, 262B tokens as the paper counts."""
    return small(diffusion(OWT, 1_000_000), "sedd", SEDD)


@register("recipe", "owt-sedd-uniform")
def owt_sedd_uniform() -> Config:
    """SEDD with uniform noise on OpenWebText."""
    return small(diffusion(OWT, 1_000_000), "sedd", UNIFORM)


@register("recipe", "owt-udlm")
def owt_udlm() -> Config:
    """UDLM on OpenWebText, 262B tokens as the paper counts."""
    return small(diffusion(OWT, 1_000_000), "udlm", UDLM)


@register("recipe", "owt-duo")
def owt_duo() -> Config:
    """Duo, UDLM with its curriculum in the first half, on OpenWebText."""
    return small(diffusion(OWT, 1_000_000), "udlm", DUO_OWT)


@register("recipe", "owt-gidd")
def owt_gidd() -> Config:
    """GIDD with p_u = 0.1 on OpenWebText: a million steps of 512 rows of 512, 262B tokens."""
    config = small(diffusion(replace(OWT, length=512), 1_000_000), "gidd", GIDD)
    return replace(config, optim=GIDD_OPTIM)


@register("recipe", "laptop-d3pm")
def laptop_d3pm() -> Config:
    """D3PM: the mask may be predicted; 1000 steps and a reading of the whole text."""
    return laptop("d3pm", D3PM)


@register("recipe", "laptop-sedd")
def laptop_sedd() -> Config:
    """SEDD: scores of masked noise that no sum ties together."""
    return laptop("sedd", replace(SEDD, times=BELL, weight="flat"))


@register("recipe", "laptop-sedd-uniform")
def laptop_sedd_uniform() -> Config:
    """SEDD with uniform noise."""
    return laptop("sedd", UNIFORM)


@register("recipe", "laptop-udlm")
def laptop_udlm() -> Config:
    """UDLM: noise is any token, and what is written may be rewritten."""
    return laptop("udlm", replace(UDLM, times=BELL, weight="clamp:1.5"))


@register("recipe", "laptop-duo")
def laptop_duo() -> Config:
    """Duo: UDLM whose noise is Gaussian and softened in the first half of the training."""
    return laptop("udlm", replace(DUO, times=BELL, weight="clamp:1.5"))


@register("recipe", "laptop-gidd")
def laptop_gidd() -> Config:
    """GIDD: noise is the mask, and now and then a token."""
    return laptop("gidd", replace(GIDD, times=BELL))


@register("recipe", "laptop-sedd-anchored")
def laptop_sedd_anchored() -> Config:
    """laptop-adlm's anchoring over SEDD."""
    return over(laptop_sedd())


@register("recipe", "laptop-gidd-anchored")
def laptop_gidd_anchored() -> Config:
    """laptop-adlm's anchoring over GIDD."""
    return over(laptop_gidd())


def over(config: Config) -> Config:
    """The same with the paper's anchoring: the two-line change."""
    anchor = AnchorConfig(gamma=0.3, positions="all")
    return slow_bridge(anchored(config, f"adlm-{config.objective}", anchor, bridge="linear"))
