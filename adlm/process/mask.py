"""Absorbing corruption: hide tokens behind the mask, z_t ~ q(z_t | x).

Every rule returns z_t with the weight that makes

    E[ weight * sum_{masked l} -log p(x^l | z_t) ]

the NELBO of a row. `maskable` marks the positions that may be hidden: padding never is, nor is
anything that the caller protects (a prompt, frozen tokens), which then is conditioned on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.process.reverse import Transition
from adlm.process.schedule import Schedule
from adlm.registry import register
from adlm.types import Batch, Noise, Noised


def hide(x: Tensor, masked: Tensor, mask_id: int) -> Tensor:
    """x: (B, L) with the masked positions replaced by mask_id."""
    return torch.where(masked, mask_id, x)


def forbid_mask(logits: Tensor, mask_id: int) -> Tensor:
    """Give the mask (if it is one of the V) the probability zero, in place. logits: (..., V).

    Example:
        >>> forbid_mask(torch.zeros(3), mask_id=2).softmax(0)
        tensor([0.5000, 0.5000, 0.0000])
    """
    logits[..., mask_id : mask_id + 1] = -torch.inf
    return logits


@register("masking", "bernoulli")
def bernoulli(
    x: Tensor, maskable: Tensor, noise: Noise, mask_id: int, schedule: Schedule
) -> Noised:
    """Continuous time: each token is hidden with probability 1 - alpha_t; weight -alpha'/(1-alpha).

    Example:
        >>> from adlm.process.schedule import LogLinear
        >>> x, free = torch.tensor([[5, 6]]), torch.tensor([[True, False]])
        >>> noise = Noise(torch.tensor([0.5]), torch.tensor([[0.1, 0.1]]))
        >>> bernoulli(x, free, noise, 9, LogLinear()).z
        tensor([[9, 6]])
    """
    masked = (noise.u < 1 - schedule.alpha(noise.t)[:, None]) & maskable
    return Noised(hide(x, masked, mask_id), masked, schedule.weight(noise.t))


@register("masking", "exact-k")
def exact_k(x: Tensor, maskable: Tensor, noise: Noise, mask_id: int, schedule: Schedule) -> Noised:
    """Hide exactly k of the n maskable tokens, k uniform on 1..n; weight n / k.

    Given the number of hidden tokens, which ones are hidden is uniform, and for every schedule

        integral of weight(t) * Binomial(k; n, 1 - alpha_t) dt = 1 / k.

    So for a denoiser that does not look at the time, this is the same bound, with the randomness
    of the count integrated out and the time's replaced by k.

    Example:
        >>> x, free = torch.arange(4)[None], torch.ones(1, 4, dtype=torch.bool)
        >>> noise = Noise(torch.tensor([0.5]), torch.tensor([[0.1, 0.9, 0.2, 0.3]]))
        >>> noised = exact_k(x, free, noise, 9, None)
        >>> noised.z, noised.weight
        (tensor([[9, 1, 9, 3]]), tensor([2.]))
    """
    n = maskable.sum(dim=1)  # (B,)
    k = torch.ceil(noise.t * n).long().clamp(min=1).minimum(n)  # (B,) 0 where nothing is maskable
    order = torch.where(maskable, noise.u, torch.inf).argsort(dim=1, stable=True)  # (B, L)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(x.shape[1], device=x.device).expand_as(order).contiguous()
    )
    masked = (rank < k[:, None]) & maskable
    weight = n / k.clamp(min=1)
    return Noised(hide(x, masked, mask_id), masked, weight.to(noise.t.dtype))


def turned(made: Noised, batch: Batch, rows: Tensor, mask_id: int) -> Noised:
    """Show of some rows, (B,) bool, what is hidden and hide what is shown; weight n / hidden.

    Example:
        >>> x, every = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool)
        >>> one = Noised(torch.tensor([[9, 6]]), torch.tensor([[True, False]]), torch.ones(1))
        >>> turned(one, Batch(x, every), torch.tensor([True]), 9).z
        tensor([[5, 9]])
    """
    masked = (made.masked ^ rows[:, None]) & batch.scored
    share = batch.scored.sum(dim=1) / masked.sum(dim=1).clamp(min=1)
    weight = torch.where(rows, share.to(made.weight.dtype), made.weight)
    return Noised(hide(batch.x, masked, mask_id), masked, weight)


def discrete(
    x: Tensor,
    maskable: Tensor,
    noise: Noise,
    mask_id: int,
    schedule: Schedule,
    steps: int,
    remask: float = 0.0,
) -> Noised:
    """Discrete time with T steps: weight T |lambda_t| of the reverse step from t to t - 1 / T.

    The remasking probability `remask` is cut to its valid range. Without remasking this tends to
    `bernoulli` as T grows; for every T it is a valid bound.
    """
    i = torch.round(noise.t * steps).clamp(1, steps)  # t is a multiple of 1 / T
    step = Transition(schedule.alpha(i / steps), schedule.alpha((i - 1) / steps))
    masked = (noise.u < 1 - step.alpha_t[:, None]) & maskable
    return Noised(hide(x, masked, mask_id), masked, step.weight(step.cut(remask), steps))
