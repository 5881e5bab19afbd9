"""The network that learns to reason: from scratch, from a checkpoint, or from GPT-2's weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from adlm import registry
from adlm.config import Config, DataConfig, ModelConfig, OptimConfig, TrainConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models import checkpoint, hub
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.models.foreign.load import is_foreign, load_foreign
from adlm.models.size import resize
from adlm.models.widen import widen
from adlm.reasoning.plan import Plan
from adlm.reasoning.vocab import SPECIAL, open_tokenizer, special, with_special
from adlm.recipes.anchoring import anchored

Base = tuple[Config, Vocab | None, Denoiser | None]


def start(plan: Plan) -> Base:
    """Configuration of the run, its vocabulary and its base's network.

    No vocabulary: the words of the items. No network: it starts from scratch.
    """
    s = plan.settings
    if s.base is None:
        return scratch(plan), open_tokenizer(s.tokenizer, s.data_dir), None
    if is_foreign(s.base):
        found = load_foreign(s.base, data_dir=s.data_dir)
        config, vocab, model = found.config, found.vocab, found.model
    else:
        saved = checkpoint.load(s.base)
        config, vocab, model = saved.config, saved.vocab, hub.load_model(saved)
    if not registry.lookup("objective", config.objective).causal:
        raise UserError(f"{s.base} is not causal ({config.objective}): reasoning needs ar or a2r")
    if s.add_tokens:
        wide = with_special(vocab)
        model = widen(model, config, wide.size)
        vocab = wide
    for name in SPECIAL:
        special(vocab, name)
    return replace(config, optim=optim(plan), train=train(plan)), vocab, model


def scratch(plan: Plan) -> Config:
    """Return a causal trunk of the dial's size, with a short convolution and normalised queries."""
    s = plan.settings
    network = ModelConfig(conv=5, qk_norm=True)
    config = resize(Config(objective="ar", model=network), s.size)
    if s.objective == "a2r":
        config = anchored(config, "a2r", front=1, bridge="embedding", residual=True)
    data = DataConfig(name=plan.task, tokenizer=s.tokenizer)
    return replace(config, data=data, optim=optim(plan), train=train(plan))


def optim(plan: Plan) -> OptimConfig:
    s = plan.settings
    return OptimConfig(name=s.optim, lr=s.lr, muon_lr=s.muon_lr)


def train(plan: Plan) -> TrainConfig:
    s = plan.settings
    return TrainConfig(batch=s.batch, seed=s.seed, precision=s.precision, device=s.device)


def lengthened(config: Config, model: Denoiser | None, length: int, path: str | None) -> Config:
    """The configuration with room for rows of that length, if the base can have it."""
    if model is not None and config.model.positions == "learned" and length > config.data.length:
        raise UserError(
            f"{path} has {config.data.length} positions, but the longest row needs {length}"
        )
    return replace(config, data=replace(config.data, length=max(length, config.data.length)))


def fresh(config: Config, vocab: Vocab, base: Denoiser | None, seed: int) -> Denoiser:
    """Return the network at the start of the training, with room for the run's longest row."""
    torch.manual_seed(seed)
    model = build_model(config, vocab.size)
    if base is None:
        nn.init.normal_(model.embed.weight, std=0.02)
    else:
        hub.fill(model, base.state_dict(), Path("the base model"))
    return model
