"""The forward pass with continuous thoughts, and the loss.

A thought's input is the last hidden state before it, so the network runs up to the first thought,
then thought by thought, then over the rest: as much work as one pass, by the cache. `naive` runs
the whole row again for every thought and is the tested reference.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser, States
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.nn.linear_ce import linear_cross_entropy
from adlm.objectives.anchored import AnchoredObjective
from adlm.reasoning.sequence import IGNORE, ReasoningRows
from adlm.types import Batch, View


def states(model: Denoiser, rows: ReasoningRows, wanted: Tensor | None = None) -> States:
    """Hidden states at every position, the anchor network's too where there is one.

    With wanted, (B, L) bool, the denoiser's are those of the wanted positions alone, (N, D), and
    without thoughts its last block is spared elsewhere: a question is ten times its solution.
    """
    x = model.embed(rows.ids)  # (B, L, D)
    columns = rows.columns
    if not columns:
        return model(x, Context(Layout(True, rows.segment), wanted=wanted))

    cache = model.new_cache()

    def run(part: Tensor, end: int) -> States:
        seen = None if rows.segment is None else rows.segment[:, :end]
        return model(part, Context(Layout(True, seen), cache=cache))

    parts = [run(x[:, : columns.start], columns.start)]
    for column in columns:
        parts.append(run(parts[-1].denoiser[:, -1:], column + 1))
    if columns.stop < x.shape[1]:
        parts.append(run(x[:, columns.stop :], x.shape[1]))
    anchors = [p.anchor for p in parts if p.anchor is not None]
    whole = torch.cat([p.denoiser for p in parts], dim=1)
    if wanted is not None:
        whole = whole[wanted]
    return States(whole, torch.cat(anchors, dim=1) if anchors else None)


def naive(model: Denoiser, rows: ReasoningRows) -> Tensor:
    """(B, L, D) the denoiser's states by one whole pass for every thought."""
    inputs = list(model.embed(rows.ids).unbind(1))  # L of (B, D)
    context = Context(Layout(True, rows.segment))
    for column in rows.columns:
        inputs[column] = model(torch.stack(inputs, 1), context).denoiser[:, column - 1]
    return model(torch.stack(inputs, 1), context).denoiser


def losses(
    model: Denoiser, rows: ReasoningRows, a2r: AnchoredObjective | None = None
) -> tuple[Tensor, Tensor]:
    """(NLL of the labels, anchor loss), summed, in nats: the two terms of A2R,

        NLL    = sum_{l labelled} -log p(x^l | x^{1:l-1}),
        anchor = sum_{l labelled and an anchor} -log y_phi^l(x^l | x^{1:l-1}).

    The second is 0 where it is not asked for. A label is predicted from the position before it.
    """
    labelled = rows.labels != IGNORE  # (B, L)
    labelled[:, 0] = False  # nothing is before it
    found = states(model, rows, before(labelled))
    bound = _cross_entropy(found.denoiser, model.head, rows.labels[labelled])
    if a2r is None:
        return bound, bound.new_zeros(())
    assert isinstance(model, Anchored)
    assert found.anchor is not None
    x = torch.where(labelled, rows.labels, rows.ids)  # at a slot, what it has to say
    view = View(rows.ids, x, labelled, labelled.new_ones(len(x)))
    chosen = a2r.supervised(Batch(x, torch.ones_like(labelled)), view)  # padding is no anchor
    chosen &= labelled
    h = found.anchor[before(chosen)]
    return bound, _cross_entropy(h, model.anchor_head, rows.labels[chosen])


def before(chosen: Tensor) -> Tensor:
    """(B, L) the positions that predict the chosen ones; a row's first token has none.

    Example:
        >>> before(torch.tensor([[False, True, False, True]])).tolist()
        [[True, False, True, False]]
    """
    return F.pad(chosen[:, 1:], (0, 1))


def _cross_entropy(h: Tensor, head: nn.Linear, y: Tensor) -> Tensor:
    """Summed over h: (N, D) and y: (N,)."""
    one = torch.ones(len(y), device=y.device)
    return linear_cross_entropy(h, head.weight, head.bias, y, one)[0]
