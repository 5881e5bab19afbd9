"""A checkpoint becomes the start of another training: other data, or another objective.

    AR -> MDLM       attention is opened. An AR model tells token l at position l - 1; so does the
                     diffusion model (`model.shift`), and the start of a row stands before it.
                     The mask's embedding starts as the mean of all; a short convolution keeps its
                     taps and gets as many to the right, of zero.
    MDLM -> ADLM     the first blocks are the anchor network's, the others the denoiser's; with the
    AR -> A2R        residual bridge, which starts at zero, the anchored model computes what its
                     base does. The anchor head starts as the base's head.
    MDLM -> BD3-LM   the same tensors.
    AR -> BD3-LM     as AR -> MDLM, without the shift: a block has no position before it.

The base's network and tokenizer are taken; what of them a configuration says otherwise is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adlm import registry
from adlm.config import Config, ModelConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models import checkpoint, hub
from adlm.models.denoiser import Denoiser
from adlm.models.foreign.load import is_foreign, load_foreign

Tensors = dict[str, Tensor]
FREE = ("dropout", "attention_dropout")  # of a network; all else is the base's
OWN = ("bridge.", "start")  # tensors that a plain base has not


@dataclass(frozen=True)
class Base:
    """A checkpoint from which a training starts."""

    name: str
    config: Config
    vocab: Vocab
    weights: Callable[[], Tensors]

    @property
    def causal(self) -> bool:
        return registry.lookup("objective", self.config.objective).causal


def open_base(name: str) -> Base:
    """Open a run, a checkpoint, another project's weights or a name on the hub."""
    if is_foreign(name):
        found = load_foreign(name)
        return Base(name, found.config, found.vocab, found.model.state_dict)
    saved = checkpoint.load(name)
    return Base(name, saved.config, saved.vocab, saved.weights)


def based(config: Config, base: Base) -> Config:
    """The configuration with the base's network and tokenizer, as its objective has them."""
    data = replace(config.data, tokenizer=base.config.data.tokenizer)
    process, told = config.process, base.config.process.conditioned
    if told and not registry.lookup("objective", config.objective).causal:
        process = replace(process, conditioned=True, masking="bernoulli")
    started = replace(config.base, name=base.name)
    made = replace(config, data=data, process=process, base=started, model=network(config, base))
    if made.model.anchor_blocks and not base.config.model.anchor_blocks:
        made = replace(made, model=replace(made.model, residual=True))
    return made


def network(config: Config, base: Base) -> ModelConfig:
    """The base's network as the objective of a configuration has it, or UserError."""
    old, new = base.config.model, config.model
    kind = registry.lookup("objective", config.objective)
    change = (
        f"{base.name} is a model of {base.config.objective}: it cannot become {config.objective}"
    )
    if kind.causal and not base.causal:
        raise UserError(f"{change}, which sees only what is before it")
    if old.anchor_blocks and not new.anchor_blocks:
        raise UserError(f"{change}, which has no anchor network")
    if old.shift and kind.in_blocks:
        raise UserError(f"{change}: its predictions are shifted, and a block has none before it")
    opened = base.causal and not kind.causal
    made = replace(
        old,
        **{name: getattr(new, name) for name in FREE},
        conv=2 * old.conv - 1 if opened and old.conv else old.conv,
        shift=old.shift or (opened and not kind.in_blocks),
    )
    if old.anchor_blocks or not new.anchor_blocks:
        return made
    front = round(old.blocks * new.anchor_blocks / (new.anchor_blocks + new.blocks))
    front = min(max(1, front), old.blocks - 1)
    if not front:
        raise UserError(f"{base.name} has one block, which leaves none for a denoiser")
    made = replace(made, anchor_blocks=front, blocks=old.blocks - front)
    return replace(made, bridge=new.bridge, residual=new.residual, shared=new.shared)


def check(config: Config, base: Base) -> None:
    """Raise UserError unless a configuration's network and tokenizer are the base's."""
    wanted = network(config, base)
    for name, right in vars(wanted).items():
        found = getattr(config.model, name)
        if found != right:
            raise UserError(
                f"model.{name} is {found}, and the base {base.name} needs {right}: its network is "
                "taken as it is"
            )
    right = base.config.data.tokenizer
    if config.data.tokenizer != right:
        raise UserError(
            f"data.tokenizer is {config.data.tokenizer}, and that of the base {base.name} is "
            f"{right} ({base.vocab.size:,} tokens): its vocabulary is taken"
        )


@torch.no_grad()
def begin(model: Denoiser, config: Config, base: Base) -> None:
    """Give a fresh network the base's weights; what the base has not stays as it is."""
    tensors, old, new = base.weights(), base.config.model, config.model
    if base.causal and not model.causal:
        tensors = opened(tensors, base.vocab.mask)
    if new.anchor_blocks and not old.anchor_blocks:
        tensors = split(tensors, new.anchor_blocks, new.shared)
    if new.shift and not old.shift:
        tensors["start"] = tensors["embed.weight"][base.vocab.bos]
    fresh = model.state_dict()
    for name in [n for n in tensors if n.endswith("positions.weight")]:
        tensors[name] = placed(tensors[name], len(fresh[name]), base.name)
    own = {k: t for k, t in fresh.items() if k.startswith(OWN) and k not in tensors}
    hub.fill(model, {**own, **tensors}, base.name)


def opened(tensors: Tensors, mask: int) -> Tensors:
    """A causal network's tensors for one that sees both sides: taps to the right, a mask."""
    made = dict(tensors)
    for name in (n for n in tensors if n.endswith("conv.weight")):
        taps = tensors[name]  # (taps, D): of l, l - 1, ...
        made[name] = torch.cat((torch.zeros_like(taps[1:]), taps))
    embed = tensors["embed.weight"].clone()
    embed[mask] = (embed.sum(dim=0) - embed[mask]) / (len(embed) - 1)
    return {**made, "embed.weight": embed}


def split(tensors: Tensors, front: int, shared: bool) -> Tensors:
    """A plain network's tensors as an anchor network's first `front` blocks and a denoiser's rest.

    Both have the final norm and the time embedding; positions are added once, in front.
    """
    made: Tensors = {}
    for name, tensor in tensors.items():
        if found := re.fullmatch(r"trunk\.blocks\.(\d+)\.(.+)", name):
            number, rest = int(found[1]), found[2]
            own = ("anchor_trunk", number) if number < front else ("trunk", number - front)
            made[f"{own[0]}.blocks.{own[1]}.{rest}"] = tensor
        elif name == "trunk.positions.weight":
            made |= {f"anchor_{name}": tensor, name: torch.zeros_like(tensor)}
        elif name.startswith("trunk."):
            made |= {f"anchor_{name}": tensor, name: tensor.clone()}
        else:
            made[name] = tensor
    weight = tensors["embed.weight" if shared else "head.weight"]
    return {**made, "anchor_head.weight": weight, "anchor_head.bias": tensors["head.bias"].clone()}


def placed(positions: Tensor, count: int, name: str) -> Tensor:
    """The first `count` of a base's learned positions."""
    if len(positions) < count:
        raise UserError(
            f"the base {name} has {len(positions)} learned positions, and {count} are needed: "
            f"data.length must be {count - len(positions)} less"
        )
    return positions[:count]


def told(config: Config, base: Base) -> str:
    """Say what becomes of the base, in one line."""
    old, new = base.config.model, config.model
    said = f"{base.name} ({base.config.objective})"
    if new.anchor_blocks and not old.anchor_blocks:
        said += f", the first {new.anchor_blocks} of its {old.blocks} blocks as anchor network"
    if new.shift and not old.shift:
        way = f"over {config.base.anneal:.0%} of the steps" if config.base.anneal else "at once"
        said += f", attention opened {way}, predictions shifted by one"
    return said


def reach(config: Config, progress: float) -> int | None:
    """How far ahead a position sees at a share of the training; None = all of the row.

    Example:
        >>> from adlm.config import BaseConfig
        >>> slow = Config(base=BaseConfig(anneal=0.5))  # rows of 64 tokens
        >>> [reach(slow, p) for p in (0.0, 0.25, 0.5)]
        [0, 32, None]
    """
    share = config.base.anneal
    return int(progress / share * config.data.length) if progress < share else None
