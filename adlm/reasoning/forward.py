"""The forward pass with continuous thoughts.

A thought's input is the last hidden state before it, so the network runs up to the first thought,
then thought by thought, then over the rest: as much work as one pass, by the cache. `naive` runs
the whole row again for every thought and is the tested reference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.reasoning.sequence import IGNORE, Rows


def hidden(model: Denoiser, rows: Rows) -> Tensor:
    """(B, L, D) hidden states."""
    x = model.embed(rows.ids)
    columns = rows.columns
    if not columns:
        return model(x, Context(Layout(True, rows.segment))).denoiser

    cache = model.new_cache()

    def run(part: Tensor, end: int) -> Tensor:
        seen = None if rows.segment is None else rows.segment[:, :end]
        return model(part, Context(Layout(True, seen), cache=cache)).denoiser

    parts = [run(x[:, : columns.start], columns.start)]
    for column in columns:
        parts.append(run(parts[-1][:, -1:], column + 1))
    if columns.stop < x.shape[1]:
        parts.append(run(x[:, columns.stop :], x.shape[1]))
    return torch.cat(parts, dim=1)


def naive(model: Denoiser, rows: Rows) -> Tensor:
    """The same by one whole pass for every thought."""
    inputs = list(model.embed(rows.ids).unbind(1))  # L of (B, D)
    context = Context(Layout(True, rows.segment))
    for column in rows.columns:
        inputs[column] = model(torch.stack(inputs, 1), context).denoiser[:, column - 1]
    return model(torch.stack(inputs, 1), context).denoiser


def loss(model: Denoiser, rows: Rows) -> tuple[Tensor, int]:
    """(summed cross-entropy in nats, number of labels); a label is predicted from before it."""
    h = hidden(model, rows)[:, :-1]  # (B, L - 1, D)
    target = rows.labels[:, 1:]
    wanted = target != IGNORE
    head, y = model.head, target[wanted]
    one = torch.ones(len(y), device=y.device)
    total, _ = linear_cross_entropy(h[wanted], head.weight, head.bias, y, one)
    return total, len(y)
