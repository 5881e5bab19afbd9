"""Time draws: B independent uniform numbers become B times in (0, 1], each uniform by itself.

Spreading the times of one batch evenly lowers the variance of the loss without biasing it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.registry import register


@register("times", "uniform")
def uniform(u: Tensor) -> Tensor:
    """Independent times. u: (B,) in [0, 1) -> t: (B,) in (0, 1]."""
    return 1 - u


@register("times", "antithetic")
def antithetic(u: Tensor) -> Tensor:
    """Pairs t and 1 - t: row 2i + 1 mirrors row 2i.

    Example:
        >>> antithetic(torch.tensor([0.25, 0.9]))
        tensor([0.7500, 0.2500])
    """
    even = u[0::2].repeat_interleave(2)[: len(u)]  # (B,)
    odd = torch.arange(len(u), device=u.device) % 2 == 1
    return torch.where(odd, even, 1 - even).clamp(min=torch.finfo(u.dtype).tiny)


@register("times", "stratified")
def stratified(u: Tensor) -> Tensor:
    """One time in each of B equal strata: what the published code calls antithetic.

    Example:
        >>> stratified(torch.tensor([0.0, 0.5]))
        tensor([0.5000, 0.7500])
    """
    stratum = torch.arange(len(u), device=u.device)
    return (stratum + 1 - u) / len(u)
