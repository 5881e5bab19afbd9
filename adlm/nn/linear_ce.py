"""Cross-entropy through a vocabulary head, in chunks of rows: memory never grows with L * V.

    nll_n = logsumexp_v(w_v . h_n + b_v) - (w_y . h_n + b_y),     total = sum_n scale_n * nll_n

The gradient is made together with the loss, chunk by chunk, so the logits are computed once and
never kept. PyTorch's own `linear_cross_entropy` has no weight per row without a second pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from adlm.process.mask import forbid_mask

CHUNK_ELEMENTS = 1 << 25  # logits held at once: 128 MiB in fp32
CACHE_ELEMENTS = 1 << 20  # and worked on at once: they stay in the processor's cache


def linear_cross_entropy(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    scale: Tensor,
    forbid: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (total, nll): sum_n scale_n * nll_n with gradients, and nll: (N,) fp32 without.

    Args:
        h: (N, D) hidden states, one for each prediction.
        weight: (V, D) vocabulary head.
        bias: (V,) or None.
        target: (N,) token ids.
        scale: (N,) weight of each prediction in the total; no gradient flows into it.
        forbid: A token that has probability zero (the mask, by the SUBS rule).

    Example:
        >>> h, w = torch.zeros(1, 2), torch.zeros(5, 2)
        >>> y, one = torch.tensor([3]), torch.ones(1)
        >>> total, nll = linear_cross_entropy(h, w, None, y, one, forbid=4)
        >>> bool(torch.isclose(nll[0], torch.tensor(4.0).log()))
        True
    """
    dtype, train = product_dtype(h, weight), torch.is_grad_enabled()
    return _ChunkedCrossEntropy.apply(h, weight, bias, target, scale, forbid, dtype, train)


def product_dtype(x: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype in which x @ weight.T is computed here: autocast's, where it is on."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return torch.promote_types(x.dtype, weight.dtype)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        scale: Tensor,
        forbid: int | None,
        dtype: torch.dtype,
        train: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = min(max(1, CHUNK_ELEMENTS // len(weight)), len(h))
        wide = _wide(dtype)
        x, w = h.detach().to(dtype), weight.detach().to(dtype)
        train = train and any(ctx.needs_input_grad[:3])  # which no_grad leaves as they are
        nll = torch.empty(len(h), dtype=wide, device=h.device)
        dh = torch.empty(h.shape, dtype=wide, device=h.device) if train else None
        dw = torch.zeros(weight.shape, dtype=wide, device=h.device) if train else None
        db = torch.zeros(len(weight), dtype=wide, device=h.device) if train else None
        product = torch.empty(rows, len(weight), dtype=dtype, device=h.device)
        few = rows if h.is_cuda else min(max(1, CACHE_ELEMENTS // len(weight)), rows)
        buffer = torch.empty(0 if dtype == wide else few, len(weight), dtype=wide, device=h.device)
        share = torch.empty_like(w) if train and dtype != wide else None  # a chunk's part of dw
        for lo in range(0, len(h), rows or 1):
            part = slice(lo, lo + rows)
            g = product[: len(x[part])]  # (rows, V) logits, then their gradients
            torch.mm(x[part], w.T, out=g)
            for at in range(0, len(g), few):
                mine = slice(lo + at, lo + min(at + few, len(g)))
                narrow = g[at : at + few]
                p = narrow if dtype == wide else buffer[: len(narrow)].copy_(narrow)  # (few, V)
                if bias is not None:
                    p += bias.detach()
                if forbid is not None:
                    forbid_mask(p, forbid)
                y = target[mine, None]
                top = p.amax(dim=1, keepdim=True)  # (few, 1)
                chosen = p.gather(1, y)
                total = p.sub_(top).exp_().sum(dim=1, keepdim=True)
                nll[mine] = (total.log() + top - chosen).squeeze(1)
                if db is None:
                    continue
                factor = scale[mine, None].to(wide)
                p *= factor / total  # scale * softmax; less scale * one-hot(y) it is the gradient
                p.scatter_add_(1, y, -factor)
                db += p.sum(dim=0)
                if dtype != wide:
                    narrow.copy_(p)
            if dh is None or dw is None:
                continue
            if share is None:
                torch.mm(g, w, out=dh[part])
                dw.addmm_(g.T, x[part])
            else:
                dh[part] = g @ w
                _add(dw, torch.mm(g.T, x[part], out=share))
        if dh is not None and dw is not None and db is not None:
            ctx.save_for_backward(dh.to(h.dtype), dw.to(weight.dtype), db)
        ctx.mark_non_differentiable(nll)
        return (nll * scale).sum(), nll

    @staticmethod
    def backward(ctx: Any, d_total: Tensor, d_nll: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw, db = ctx.saved_tensors  # scaled in place: a second pass is refused by autograd
        dbias = db.mul_(d_total) if ctx.needs_input_grad[2] else None
        return dh.mul_(d_total), dw.mul_(d_total), dbias, None, None, None, None, None


def _add(total: Tensor, part: Tensor) -> None:
    """total += part of a narrower dtype, which would be copied whole; so, a few rows at a time."""
    rows = len(total) if total.is_cuda else max(1, CACHE_ELEMENTS // total.shape[1])
    for some, more in zip(total.split(rows), part.split(rows), strict=True):
        some += more


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return where sums over the vocabulary are taken: fp32, or fp64 for fp64."""
    return torch.promote_types(dtype, torch.float32)
