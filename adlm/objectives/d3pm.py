"""D3PM with absorbing noise in T steps: the mask may be predicted, and nothing is carried over.

With p_m the network's probability of the mask, the reverse step puts its prediction for x. At masks

    T [ rho (n - log x_theta(x)) + (1 - rho) (n - log(1 + alpha_s p_m / (1 - alpha_s))) ],
    rho = (alpha_s - alpha_t) / (1 - alpha_t),     n = log(1 + alpha_t p_m / (1 - alpha_t)),

T times KL( q(z_s | z_t, x) || q(z_s | z_t, x_theta) ); at s = 0 the second part vanishes. The text
is read off z_0 = x by the network as well: -log x_theta(x | z_0, t = 0) at every position.
With the mask forbidden (p_m = 0) it is MDLM's bound with T steps.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.objectives.kernels import STEEP, pick


def step_divergence(
    logits: Tensor, x: Tensor, alpha_t: Tensor, alpha_s: Tensor, mask: int
) -> Tensor:
    """KL of a masked position's step over its rho: (N, V) logits, (N,) tokens and alphas -> (N,).

    Example:
        >>> logits = torch.tensor([[0.0, 0.0, -torch.inf]])  # p_m = 0: the cross-entropy
        >>> half, most = torch.tensor([0.5]), torch.tensor([0.75])
        >>> step_divergence(logits, torch.tensor([0]), half, most, mask=2)
        tensor([0.6931])
    """
    log_p = F.log_softmax(logits, dim=1)
    log_m = log_p[:, mask]
    now = F.softplus(log_m + torch.log(alpha_t / (1 - alpha_t)), threshold=STEEP)  # n
    stay = (1 - alpha_s) / (alpha_s - alpha_t)  # (1 - rho) / rho
    odds = torch.where(alpha_s < 1, alpha_s / (1 - alpha_s), 1.0)  # at s = 0 it counts nothing
    before = F.softplus(log_m + torch.log(odds), threshold=STEEP)
    return now - pick(log_p, x) + stay * (now - before)
