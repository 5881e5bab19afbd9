"""Steps back from t to s by scores e^{s_y}, which no sum ties together (SEDD).

The analytic (Tweedie) step takes the scores of time t along to s exactly,

    p(z_s = y) = [ exp(-d Q) e^s ]_y [ exp(d Q) ]_{y z},     d = sigma_t - sigma_s,

with the noise's rates Q; Euler's step is its first order, p(y) = (t - s) sigma'(t) Q_{y z} e^{s_y}.
Where a free score asks for more than all of the probability, it is cut to all.
"""

from __future__ import annotations

import torch
from torch import Tensor


def masked_step(f: Tensor, chance: float, mask: int) -> Tensor:
    """Return where a masked position goes: (N, V) fp64; f = e^s (1 - alpha) / alpha has a free sum.

    chance: (alpha_s - alpha_t) / (1 - alpha_t) for the analytic step, (t - s) weight(t) for
    Euler's; with f normalised the first is MDLM's ancestral step.

    Example:
        >>> masked_step(torch.tensor([[0.5, 0.5, 0.0]]), 0.5, mask=2).tolist()
        [[0.25, 0.25, 0.5]]
    """
    is_mask = torch.arange(f.shape[1], device=f.device) == mask
    move = chance * f.double().masked_fill(is_mask, 0.0)
    rest = (1 - move.sum(dim=1, keepdim=True)).clamp(min=0.0)
    step = torch.where(is_mask, rest, move)
    return step / step.sum(dim=1, keepdim=True)


def uniform_analytic(score: Tensor, z: Tensor, keep: float, mask: int) -> Tensor:
    """Return where a position goes with uniform noise: (N, V) fp64; keep = alpha_t / alpha_s.

    score: (N, V) of e^s, z: (N,) tokens; with e^{s_z} = 1,

        p(y) = [ e^{s_y} / keep + (1 - 1/keep) mean(e^s) ] [ keep [y = z] + (1 - keep) / N ].
    """
    real, n = _real(score, z, mask), score.shape[1] - 1
    mean = real.sum(dim=1, keepdim=True) / n
    forward = torch.full_like(real, (1 - keep) / n).scatter_add(
        1, z[:, None], torch.full_like(mean, keep)
    )
    return _cut((real / keep + (1 - 1 / keep) * mean) * forward, mask)


def uniform_euler(score: Tensor, z: Tensor, rate: float, mask: int) -> Tensor:
    """Return the same by Euler's step; rate = (t - s) sigma'(t)."""
    real, n = _real(score, z, mask), score.shape[1] - 1
    move = rate / n * real.scatter(1, z[:, None], 0.0)
    rest = (1 - move.sum(dim=1, keepdim=True)).clamp(min=0.0)
    return _cut(move.scatter(1, z[:, None], rest), mask)


def _real(score: Tensor, z: Tensor, mask: int) -> Tensor:
    """Scores with the own token's 1 and the mask's 0."""
    is_mask = torch.arange(score.shape[1], device=score.device) == mask
    return score.double().scatter(1, z[:, None], 1.0).masked_fill(is_mask, 0.0)


def _cut(step: Tensor, mask: int) -> Tensor:
    """Probabilities: nothing at the mask, nothing negative, in all 1."""
    is_mask = torch.arange(step.shape[1], device=step.device) == mask
    step = step.clamp(min=0.0).masked_fill(is_mask, 0.0)
    return step / step.sum(dim=1, keepdim=True)
