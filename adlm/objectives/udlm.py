"""UDLM: noise is any real token, so a model may correct what stands there.

In the published form, with xbar = N alpha x + 1 - alpha and i = z_t, every position costs

    alpha'/(N alpha) [ N/xbar_i - N/xbar_theta_i
                       - sum_j (xbar_j / xbar_i) log(xbar_theta_i xbar_j / (xbar_theta_j xbar_i)) ],

which is the kernel's bound, point by point in z: see `kernels.py`.

Duo is the same with a curriculum (`process.curriculum`): for that share of the training z is the
argmax of Gaussian noise and the network is shown its softmax, see `process/gaussian.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.device import bring
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser, States
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import KernelDiffusion
from adlm.process.gaussian import NUMBERS, Gaussian
from adlm.process.kernel import times
from adlm.registry import register
from adlm.types import Batch, Noise, View


@register("objective", "udlm")
class UniformDiffusion(KernelDiffusion):
    """Tell which tokens are noise, and restore them."""

    kernels = ("uniform",)
    knows = ("curriculum",)

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        self.curriculum = config.process.curriculum
        self.gaussian = Gaussian(self.kernel.real, *config.process.softened)

    def noise_at(
        self, progress: float, rows: int, length: int, generator: torch.Generator
    ) -> Noise:
        made = self.noise(rows, length, generator)
        if progress >= self.curriculum:
            return made
        return replace(made, soft=torch.rand(rows, length, NUMBERS, generator=generator))

    def view(self, batch: Batch, noise: Noise | None) -> View:
        assert noise is not None
        return super().view(batch, noise) if noise.soft is None else self.softened(batch, noise)

    def softened(self, batch: Batch, noise: Noise) -> View:
        """Return the view of Gaussian noise: the kernel's at the time of the same alpha."""
        assert noise.soft is not None
        v = times(noise.t)  # (B,)
        alpha, dalpha = self.gaussian.alpha(v)
        t = self.kernel.schedule.t_of_alpha(alpha)
        slope = dalpha / self.kernel.schedule.dalpha(t)  # dt / dv
        plain = batch.x - (batch.x > self.mask).long()  # the mask is none of 0..N-1
        near, share = self.gaussian.draw(plain.to(v.device), v, noise.soft.to(v.device))
        near = (near + (near >= self.mask)).to(batch.x.device)  # (B, L, K)
        z = torch.where(batch.free, near[..., 0], batch.x)
        made = self.shown(batch, z, t, slope)
        values = {f.name: getattr(made, f.name) for f in fields(View)}
        return Softened(**values, near=near, share=bring(share, z.device))

    def states(self, model: Denoiser, view: View) -> States:
        if not isinstance(view, Softened):
            return super().states(model, view)
        table = model.embed.weight
        share = view.share.to(table.dtype).flatten(0, 1)
        mixed = F.embedding_bag(
            view.near.flatten(0, 1), table, per_sample_weights=share, mode="sum"
        )
        vectors = mixed.view(*view.z.shape, -1)
        return model(vectors, replace(view.context, wanted=view.wanted))


@dataclass(frozen=True)
class Softened(View):
    """A view whose tokens are shown as mixtures of a few."""

    near: Tensor = None  # type: ignore[assignment]  # (B, L, K) tokens
    share: Tensor = None  # type: ignore[assignment]  # (B, L, K) of each, in all 1


@register("objective", "adlm-udlm")
class AnchoredUniformDiffusion(AnchoredObjective):
    """An anchor network in front of UDLM."""

    causal, exact = False, False
    parameterization, knows = UniformDiffusion.parameterization, UniformDiffusion.knows
    base_class = UniformDiffusion

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        if config.process.curriculum and config.anchor.stale:
            raise UserError(
                "anchor.stale shows the anchor network tokens of its own, which process.curriculum "
                "softens for the denoiser alone: one of the two must be 0"
            )
