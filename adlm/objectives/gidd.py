"""GIDD: noise is the mask and, most often in the middle, any real token (share p_u at t = 1/2).

The bound is the kernel's (`kernels.py`), with weights 1/((1-t) t) at masks,
(c + (1-t) c')/((1-t) c) at noise and (c + (1-t) c')/(N (1-t)(1-t + c/N)) at clean tokens. They span
many orders, so training has `process.weight dynamic`; what is reported is the bound. p_u = 0 is
MDLM.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import KernelDiffusion
from adlm.process.kernel import Kernel, Mixture, times
from adlm.process.weight import Weight, make_weight
from adlm.registry import register

MOST = 2.0  # a clean token's weight is cut to that of a mask


@register("objective", "gidd")
class MixedDiffusion(KernelDiffusion):
    """Restore what is hidden, and tell which of the rest is noise."""

    kernels = ("mixture",)
    timed = False

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        self.dynamic = config.process.weight == "dynamic"

    def weighting(self, spec: str) -> Weight:
        return make_weight("bound" if spec == "dynamic" else spec)

    def clock(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """For the bound t = v^3 (10 - 15 v + 6 v^2): more times near the ends.

        Noise is as rare there as sqrt(t) and counts as 1/t: even times had an endless variance.
        """
        if self.dynamic or not self.kernel.uniform:
            return super().clock(v)
        return times(v**3 * (10 - 15 * v + 6 * v**2)), 30 * (v * (1 - v)) ** 2

    def weigh(self, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
        if not self.dynamic:
            return super().weigh(z, x, t)
        alpha = self.kernel.shares(t).alpha
        return dynamic(self.kernel, z.to(t.device), x.to(t.device), t) * alpha


def dynamic(kernel: Kernel, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
    """Return the weights of training: 2 at masks, 1 at noise, and at clean tokens, at most 2,

        B / V sqrt(t / (1 - t)) = B / V e^{-lambda / 2},   lambda = log((1 - t) / t),

    the bound's own weights times 2 t (1 - t), to first order in c / N: they fall with the log-SNR
    lambda, as a token that still stands late is likely to be noise. z, x, t: alike in shape.
    """
    assert isinstance(kernel, Mixture)
    alpha = kernel.schedule.alpha(t)
    clean = (kernel.b / kernel.size * torch.sqrt((1 - alpha) / alpha)).clamp(max=MOST)
    noise = torch.where(z == x, clean, 1.0)
    return torch.where(z == kernel.mask, 2.0, noise)


@register("objective", "adlm-gidd")
class AnchoredMixedDiffusion(AnchoredObjective):
    """An anchor network in front of GIDD."""

    causal, exact = False, False
    parameterization = MixedDiffusion.parameterization
    base_class = MixedDiffusion
