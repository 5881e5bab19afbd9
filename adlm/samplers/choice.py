"""Which samplers a checkpoint can serve, and which one writes."""

from __future__ import annotations

from dataclasses import replace

from adlm import registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.process.schedule import make_schedule
from adlm.samplers.base import Policy, find_policy, make_policy
from adlm.samplers.block_diffusion import EachBlock
from adlm.samplers.blocks import Blocks, InBlocks
from adlm.samplers.settings import SamplingSettings

# the first that can write
DEFAULTS = ("causal", "ancestral", "posterior", "analytic", "order-ancestral")


def samplers_for(config: Config) -> list[str]:
    """Return the samplers that a checkpoint can serve."""
    if registry.lookup("objective", config.objective).causal:
        return ["causal"]
    return [n for n in registry.names("sampler") if serves(n, config)]


def in_blocks(config: Config) -> bool:
    """Is it a checkpoint of block diffusion, which writes its own blocks?"""
    return registry.lookup("objective", config.objective).in_blocks


def serves(sampler: str, config: Config) -> bool:
    """Can a diffusion sampler write with this checkpoint?"""
    return find_policy(sampler).serves(config)


def usual(config: Config) -> str:
    """Return the sampler where none is named: the first of DEFAULTS that can write."""
    if in_blocks(config):
        return "first-hitting"
    known = samplers_for(config)
    return next(name for name in DEFAULTS if name in known)


def chosen(config: Config, settings: SamplingSettings, length: int) -> str:
    """The sampler that settings name, or the usual one; UserError where it cannot write that."""
    known = samplers_for(config)
    sampler = settings.sampler or usual(config)
    own = "causal" not in known and registry.outside("sampler", sampler)
    if sampler not in known and not (own and serves(sampler, config)):
        raise UserError(
            f"a checkpoint of {config.objective} cannot be sampled by '{sampler}'; "
            f"it has {', '.join(known)}"
        )
    if sampler == "causal" and settings.policy:
        raise UserError("the sampler causal has no options")
    check_memory(settings, config)
    most = config.data.length
    moving = sampler == "blocks" or (in_blocks(config) and config.model.positions == "rotary")
    if length > most and not moving:
        longer = " (the sampler blocks writes longer texts)" if "blocks" in known else ""
        raise UserError(f"the text is to have {length} tokens, and only {most} fit{longer}")
    return sampler


def check_memory(settings: SamplingSettings, config: Config) -> None:
    """Raise UserError where a checkpoint cannot be passed as --cache and --anchor_every say."""
    causal, kind = registry.lookup("objective", config.objective).causal, settings.cache.kind
    if kind != "none" and (causal or in_blocks(config)):
        raise UserError(
            f"--cache {kind} is for models of whole rows: "
            f"{config.objective} keeps what is finished in any case, and exactly"
        )
    kernel, reads = config.process.kernel, registry.lookup("objective", config.objective).reads
    if settings.cache.in_blocks and (kernel != "mask" or reads):
        why = "may predict the mask" if reads else f"has the noise {kernel}"
        raise UserError(
            f"--cache {kind} writes block after block, whose noise level only masks tell: "
            f"{config.objective} {why}; --cache delayed serves it"
        )
    if settings.anchor_every > 1 and (causal or not config.model.anchor_blocks):
        raise UserError(f"--anchor_every is for anchored diffusion, not for {config.objective}")
    if config.model.recall and kind != "none":
        raise UserError("a model with self-conditioning (model.recall) takes --cache none alone")
    if config.model.shift and (kind != "none" or settings.anchor_every > 1):
        raise UserError("a model with shifted predictions (model.shift) takes --cache none alone")


def find_way(sampler: str, config: Config, settings: SamplingSettings) -> Policy:
    """The policy of a sampler for a checkpoint."""
    most = config.data.length
    schedule = make_schedule(config.process.schedule)
    policy = make_policy(sampler, schedule, settings.policy)
    if in_blocks(config):
        policy = EachBlock(schedule, policy)
    if isinstance(policy, Blocks):
        policy = replace(policy, context=min(policy.context or most, most))
        if not serves(policy.inner, config):
            raise UserError(f"a checkpoint of {config.objective} has no '{policy.inner}'")
    elif settings.cache.in_blocks:
        policy = InBlocks(schedule, policy, settings.cache.block)
    return policy
