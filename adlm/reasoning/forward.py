"""The forward pass with continuous thoughts, and the loss.

A thought's input is the last hidden state before it, so the network runs up to the first thought,
then thought by thought, then over the rest: as much work as one pass, by the cache. `naive` runs
the whole row again for every thought and is the tested reference.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adlm.models.anchored import Anchored, States
from adlm.models.denoiser import Denoiser
from adlm.nn.cache import Cache
from adlm.nn.layout import Layout
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.process.anchors import Anchors
from adlm.reasoning.sequence import IGNORE, ReasoningRows


def run(model: Denoiser, x: Tensor, layout: Layout, cache: Cache | None = None) -> States:
    """TODO(core)"""
    if isinstance(model, Anchored):
        return model.both(x, layout, cache=cache)
    return States(None, model.flow(x, layout, cache=cache))


def states(model: Denoiser, rows: ReasoningRows) -> States:
    """Hidden states at every position, the anchor network's too where there is one."""
    x = model.embed(rows.ids)  # (B, L, D)
    columns = rows.columns
    if not columns:
        return run(model, x, Layout(True, rows.segment))

    cache = model.new_cache()

    def go(part: Tensor, end: int) -> States:
        seen = None if rows.segment is None else rows.segment[:, :end]
        return run(model, part, Layout(True, seen), cache)

    parts = [go(x[:, : columns.start], columns.start)]
    for column in columns:
        parts.append(go(parts[-1].denoiser[:, -1:], column + 1))
    if columns.stop < x.shape[1]:
        parts.append(go(x[:, columns.stop :], x.shape[1]))
    anchors = [p.anchor for p in parts if p.anchor is not None]
    whole = torch.cat([p.denoiser for p in parts], dim=1)
    return States(denoiser=whole, anchor=torch.cat(anchors, dim=1) if anchors else None)


def naive(model: Denoiser, rows: ReasoningRows) -> Tensor:
    """(B, L, D) the denoiser's states by one whole pass for every thought."""
    inputs = list(model.embed(rows.ids).unbind(1))  # L of (B, D)
    layout = Layout(True, rows.segment)
    for column in rows.columns:
        inputs[column] = run(model, torch.stack(inputs, 1), layout).denoiser[:, column - 1]
    return run(model, torch.stack(inputs, 1), layout).denoiser


def losses(
    model: Denoiser, rows: ReasoningRows, anchors: Anchors | None = None
) -> tuple[Tensor, Tensor]:
    """(NLL of the labels, anchor loss), summed, in nats: the two terms of A2R,

        NLL    = sum_{l labelled} -log p(x^l | x^{1:l-1}),
        anchor = sum_{l labelled and an anchor} -log y_phi^l(x^l | x^{1:l-1}).

    The anchor loss is 0 where no rule is given. A label is predicted from the position before it.
    """
    found = states(model, rows)
    labelled = rows.labels != IGNORE  # (B, L)
    bound = _cross_entropy(found.denoiser, model.head, rows.labels, labelled)
    if anchors is None or found.anchor is None:
        return bound, bound.new_zeros(())
    chosen = anchored(rows, anchors, model)
    return bound, _cross_entropy(found.anchor, model.anchor_head, rows.labels, chosen)


def anchored(rows: ReasoningRows, anchors: Anchors, model: Anchored) -> Tensor:
    """(B, L) labelled positions whose token the rule picks out of its row.

    A row is what the network has to write, its labels, among what it is given, question and slots.
    """
    labelled = rows.labels != IGNORE
    x = torch.where(labelled, rows.labels, rows.ids)
    return anchors(x, torch.ones_like(labelled), model.table()) & labelled  # padding is no anchor


def _cross_entropy(h: Tensor, head: nn.Linear, labels: Tensor, wanted: Tensor) -> Tensor:
    """Summed over the wanted positions; h: (B, L, D), labels and wanted: (B, L)."""
    wanted = wanted[:, 1:]
    y = labels[:, 1:][wanted]
    one = torch.ones(len(y), device=y.device)
    return linear_cross_entropy(h[:, :-1][wanted], head.weight, head.bias, y, one)[0]
