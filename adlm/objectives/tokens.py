"""What a model says of each token of a text: log-probabilities and hidden states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm import registry
from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.objectives.ar import shift_right
from adlm.process.reverse import noise_level
from adlm.values import check, short

AT_ONCE = 64  # rows of a pass


@torch.no_grad()
def log_probabilities(model: Denoiser, config: Config, vocab: Vocab, x: Tensor) -> Tensor:
    """Return (L,) log p of each token of x: (L,).

    Of a causal model log p(x^l | x^{<l}), whose sum is the text's. Of a masked diffusion model log
    p(x^l | all other tokens), each hidden alone: what it holds of every token in its place, whose
    sum is no likelihood (in block diffusion, given the block's others and all blocks before it).
    """
    kind = registry.lookup("objective", config.objective)
    place = torch.arange(len(x), device=x.device)
    if model.causal:
        seen = shift_right(x[None], None, vocab.bos)
        return told(model, seen, x[None], torch.ones_like(seen, dtype=torch.bool), vocab, Context())
    if kind.parameterization not in ("subs", "order"):
        raise UserError(
            f"a model of {config.objective} has no log-probability of a token behind a mask"
        )
    found = []
    for some in place.split(AT_ONCE):
        hidden = some[:, None] == place  # (n, L)
        clean = x.expand(len(some), -1)
        z, layout = model.shown(torch.where(hidden, vocab.mask, clean), clean)
        sigma = None
        if config.process.conditioned:  # one of L tokens is hidden
            sigma = noise_level(torch.full(clean.shape, 1 - 1 / len(x), device=x.device))
            sigma = F.pad(sigma, (0, z.shape[1] - len(x)))  # a clean half has no noise
        wanted = torch.zeros_like(z, dtype=torch.bool)
        wanted[:, : len(x)] = hidden
        found.append(told(model, z, clean, wanted, vocab, Context(layout, sigma)))
    return torch.cat(found)


def told(
    model: Denoiser, z: Tensor, x: Tensor, wanted: Tensor, vocab: Vocab, context: Context
) -> Tensor:
    """(N,) log p of the tokens x at the wanted positions of z."""
    h = model(z, replace(context, wanted=wanted)).denoiser
    target = x[wanted[:, : x.shape[1]]]
    head, ones = model.head, torch.ones(len(h), device=h.device)
    return -linear_cross_entropy(h, head.weight, head.bias, target, ones, vocab.mask)[1]


@torch.no_grad()
def hidden_states(model: Denoiser, config: Config, vocab: Vocab, x: Tensor) -> Tensor:
    """Return (L, D): the state of each token of x: (L,), as the vocabulary head reads it.

    Of a causal model the state after the token has been read; of a diffusion model that at its
    place in the whole text, with nothing hidden.
    """
    if model.causal:
        seen = torch.cat((x.new_tensor([vocab.bos]), x))
        return model(seen[None]).denoiser[0, 1:]
    sigma = None
    if config.process.conditioned:
        sigma = noise_level(torch.ones(1, device=x.device))
    z, layout = model.shown(x[None], x[None])
    return model(z, Context(layout, sigma)).denoiser[0, : len(x)]


def token_ids(ids: Any, size: int) -> Tensor:
    """Return (B, L) token ids of a vocabulary of `size`, from anything that holds them.

    Example:
        >>> token_ids([3, 4], size=5)
        tensor([[3, 4]])
    """
    right = "whole numbers of shape (B, L) or (L,)"
    try:
        z = torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"ids must be {right}, found {short(ids)}") from None
    kind = f"{str(z.dtype).removeprefix('torch.')} of shape {tuple(z.shape)}"
    whole = z.ndim in (1, 2) and z.numel() > 0
    check(whole and z.dtype in (torch.int64, torch.int32, torch.int16), "ids", kind, right)
    worst = int(z.min()) if int(z.min()) < 0 else int(z.max())
    check(0 <= worst < size, "ids", worst, f"from 0 to {size - 1}, the vocabulary's last")
    return (z if z.ndim == 2 else z[None]).long()
