"""GIDD"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.process.kernel import Mixture


def dynamic(kernel: Mixture, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
    """The weights of training: 2 at masks, 1 at noise, and at clean tokens, at most 2,

        B / V sqrt((1 - t) / t) = B / V e^{lambda / 2},   lambda = log((1 - t) / t),

    as the bound's own weight grows with the log-SNR lambda. z, x, t: alike in shape.
    """
    clean = (kernel.b / kernel.size * torch.sqrt((1 - t) / t)).clamp(max=2.0)
    noise = torch.where(z == x, clean, 1.0)
    return torch.where(z == kernel.mask, 2.0, noise)
