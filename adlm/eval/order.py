"""Exact -log p of a deterministic order: which tokens a rule writes first is worth something.

A rule says from what is visible alone which open position comes next. With the true token filled in
there, the chain rule holds for that order as for left to right:

    -log p(x) = - sum_i log p(x^{l_i} | z_i),     l_i = rule(z_i),

one pass for each token of a row. In block diffusion the rule chooses inside the first open block.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from adlm import registry
from adlm.config import Config
from adlm.data.pack import Rows
from adlm.device import autocast
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.objectives.likelihood import Likelihood
from adlm.objectives.subs import zero_masking
from adlm.process.reverse import noise_level
from adlm.progress import Bar
from adlm.samplers.canvas import ELEMENTS
from adlm.samplers.confidence import sureness
from adlm.types import Batch

ORDERS = ("confidence", "anchor-first", "left-to-right")


def check_order(order: str, config: Config) -> None:
    """Raise UserError where a checkpoint has no such order."""
    kind = registry.lookup("objective", config.objective)
    blind = config.process.conditioned and kind.in_blocks
    if kind.causal or kind.parameterization not in ("subs", "order") or blind:
        raise UserError(f"--order is for masked diffusion, found the objective {config.objective}")
    if order == "anchor-first" and not config.model.anchor_blocks:
        raise UserError(
            f"--order anchor-first needs an anchor network; {config.objective} has none"
        )


def order_nats(
    model: Denoiser, batch: Batch, order: str, mask: int, conditioned: bool = False
) -> Tensor:
    """(B,) fp64 nats of rows, their scored tokens filled in one by one."""
    x = batch.x
    z = x.masked_fill(batch.scored, mask)
    waiting = batch.scored.clone()
    nats = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for _ in range(int(waiting.sum(dim=1).max())):
        seen, layout = model.shown(z, x, batch.segment)
        told = noise_level((z != mask).float().mean(dim=1)) if conditioned else None
        states = model(seen, Context(layout, told))
        rows = torch.arange(len(x), device=x.device)
        allowed = waiting & in_turn(waiting, model.block)
        h, head = states.denoiser, model.head
        if order == "anchor-first":
            assert isinstance(model, Anchored)
            assert states.anchor is not None
            at = next_position(states.anchor, model.anchor_head, allowed, mask)
        elif order == "confidence":
            at = next_position(h, head, allowed, mask)
        else:
            at = allowed.int().argmax(dim=1)  # the first
        log_p = zero_masking(head(h[rows, at]).double(), mask)  # (B, V)
        live = waiting[rows, at]  # a shorter row is done
        nats -= log_p.gather(1, x[rows, at][:, None]).squeeze(1) * live
        z[rows, at], waiting[rows, at] = x[rows, at], False
    return nats


def in_turn(waiting: Tensor, block: int) -> Tensor:
    """(B, L) the positions of each row's first open block; of whole rows all."""
    if not block:
        return torch.ones_like(waiting)
    number = torch.arange(waiting.shape[1], device=waiting.device) // block
    return number == number[waiting.int().argmax(dim=1)][:, None]


def next_position(h: Tensor, head: torch.nn.Linear, allowed: Tensor, mask: int) -> Tensor:
    """(B,) the allowed position whose likeliest token is the likeliest; of equals the leftmost."""
    found = h[:, : allowed.shape[1]][allowed]  # (N, D)
    parts = found.split(max(1, ELEMENTS // head.out_features))
    sure = torch.cat([sureness(head(part), mask, "probability") for part in parts])
    score = torch.full(allowed.shape, -1.0, dtype=torch.float64, device=h.device)
    score = score.masked_scatter(allowed, sure.double().round(decimals=6))
    return (score == score.amax(dim=1, keepdim=True)).int().argmax(dim=1)


@torch.no_grad()
def score_in_order(
    model: Denoiser,
    config: Config,
    rows: Rows,
    index: np.ndarray,
    order: str,
    mask: int,
    batch: int = 64,
    device: str = "cpu",
    precision: str = "fp32",
) -> Likelihood:
    """Score the rows `index`, (R,), in an order."""
    nats = np.zeros((len(index), 1))
    told = config.process.conditioned
    with autocast(precision, device), Bar("in order", len(index), "rows") as bar:
        for low in range(0, len(index), batch):
            part = index[low : low + batch]
            found = order_nats(model.eval(), rows.batch(part).to(device), order, mask, told)
            nats[low : low + len(part), 0] = found.cpu().numpy()
            bar.update(low + len(part))
    return Likelihood(nats, rows.count[index], rows.document[index], index)
