"""Any loss of a vocabulary's logits, in chunks of rows: memory never grows with L * V.

    nats_n = f(W h_n + b, given_n),     total = sum_n scale_n * nats_n

The gradient is made together with the loss, chunk by chunk, so the logits are computed once and
never kept. For the cross-entropy, `linear_ce` is the faster one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK_ELEMENTS = 1 << 22  # logits held at once: 16 MiB in fp32, of which f makes several copies

Loss = Callable[..., Tensor]  # (n, V) logits and more of n -> (n,) nats, differentiable


def chunked(
    f: Loss, h: Tensor, head: nn.Linear, scale: Tensor, *given: Tensor
) -> tuple[Tensor, Tensor]:
    """Return (total, nats): sum_n scale_n * nats_n with gradients, and nats: (N,) without.

    Args:
        f: The loss; it gets fp32 logits, or fp64 ones of fp64 states.
        h: (N, D) hidden states.
        head: The vocabulary head.
        scale: (N,) weight of each position in the total; no gradient flows into it.
        given: (N,) or (N, ...) each, handed to f in the same chunks.

    Example:
        >>> h, head = torch.zeros(3, 2), nn.Linear(2, 4)
        >>> total, nats = chunked(lambda logits: logits.logsumexp(1), h, head, torch.ones(3))
        >>> nats.shape, total.requires_grad
        (torch.Size([3]), True)
    """
    train = torch.is_grad_enabled()
    return _ChunkedSum.apply(f, h, head.weight, head.bias, scale, train, *given)


class _ChunkedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        f: Loss,
        h: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        scale: Tensor,
        train: bool,
        *given: Tensor,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(h.dtype, torch.float32)
        train = train and any(ctx.needs_input_grad[1:4])
        w = weight.detach().requires_grad_(train)
        b = None if bias is None else bias.detach().requires_grad_(train)
        nats = torch.empty(len(h), dtype=wide, device=h.device)
        dh = torch.empty(h.shape, dtype=wide, device=h.device)
        sums = [torch.zeros(p.shape, dtype=wide, device=h.device) for p in (w, b) if p is not None]
        rows = max(1, CHUNK_ELEMENTS // len(weight))
        for low in range(0, len(h), rows):
            part = slice(low, low + rows)
            x = h[part].detach().requires_grad_(train)
            with torch.set_grad_enabled(train):
                logits = F.linear(x, w, b).to(wide)  # (rows, V)
                found = f(logits, *(g[part] for g in given))
                nats[part] = found.detach()
                if not train:
                    continue
                total = (found * scale[part].to(wide)).sum()
                dx, *others = torch.autograd.grad(total, [p for p in (x, w, b) if p is not None])
            dh[part] = dx
            for one, more in zip(sums, others, strict=True):
                one += more
        if train:
            ctx.save_for_backward(dh.to(h.dtype), *(one.to(weight.dtype) for one in sums))
        ctx.mark_non_differentiable(nats)
        return (nats * scale).sum(), nats

    @staticmethod
    def backward(ctx: Any, d_total: Tensor, d_nats: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw, *db = (d_total * grad for grad in ctx.saved_tensors)
        return None, dh, dw, db[0] if db else None, *(None,) * (len(ctx.needs_input_grad) - 4)
