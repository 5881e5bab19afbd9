"""The bound of any kernel with a normalised prediction x_theta (UDLM, GIDD; with masks, MDLM):

    E_t E_{z ~ q_t(.|x)} sum_l w(z, x, t) [ KL(q_t(.|x) || q_t(.|x_theta)) + r - log r - 1 ],
    r = q_t(z | x) / q_t(z | x_theta),     q_t(. | p) = alpha p + beta pi.

The bracket is what a position's prediction costs, the weight w the kernel's own. Where noise is a
real token every position counts, also the clean ones: nobody can tell which they are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

STEEP = 40.0  # above, softplus(x) is x to the last bit of fp64


def divergence(
    logits: Tensor, z: Tensor, x: Tensor, alpha: Tensor, each: Tensor, mask: int, uniform: bool
) -> Tensor:
    """KL + r - log r - 1 of each position: (N,), from (N, V) logits; the mask is forbidden.

    With g_y = log(1 + alpha p_y / each) = log q_t(y | p) - log each,

        KL    = (alpha + each) log(1 + alpha / each) - alpha g_x - each sum_y g_y
        log r = [z = x] log(1 + alpha / each) - g_z,     0 where z is the mask.

    z, x: (N,) tokens; alpha, each: (N,) shares of the kernel. Without uniform noise (`each` is 0)
    it is alpha times the cross-entropy.

    Example:
        >>> logits, half = torch.zeros(1, 3), torch.tensor([0.5])
        >>> divergence(logits, *torch.tensor([[2], [0]]), half, half, mask=2, uniform=False)
        tensor([0.3466])
    """
    is_mask = torch.arange(logits.shape[1], device=logits.device) == mask
    log_p = F.log_softmax(logits.masked_fill(is_mask, -torch.inf), dim=1)
    if not uniform:
        return -alpha * pick(log_p, x)
    c = torch.log(alpha / each)
    g = F.softplus(log_p + c[:, None], threshold=STEEP)  # (N, V), 0 at the mask
    most = F.softplus(c, threshold=STEEP)
    kl = (alpha + each) * most - alpha * pick(g, x) - each * g.sum(dim=1)
    log_r = torch.where(z == mask, 0.0, (z == x) * most - pick(g, z))
    return kl + torch.expm1(log_r) - log_r


def pick(values: Tensor, token: Tensor) -> Tensor:
    """The value of each row's token: (N, V), (N,) -> (N,)."""
    return values.gather(1, token[:, None]).squeeze(1)
