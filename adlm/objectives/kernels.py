"""The bound of any kernel with a normalised prediction x_theta (UDLM, GIDD; with masks, MDLM):

    E_t E_{z ~ q_t(.|x)} sum_l w(z, x, t) [ KL(q_t(.|x) || q_t(.|x_theta)) + r - log r - 1 ],
    r = q_t(z | x) / q_t(z | x_theta),     q_t(. | p) = alpha p + beta pi.

The weight w is the kernel's own. alpha w is MDLM's weight where noise hides x, and the bracket over
alpha is a cross-entropy there, so that is how they are split into a position's weight and its nats.
Where noise is a real token every position counts, also the clean ones: nobody can tell which.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.device import bring, wide
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.nn.chunked import chunked
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.base import Objective
from adlm.objectives.mdlm import check_times, of_bound, segments
from adlm.process.kernel import make_kernel, times
from adlm.process.schedule import alpha_at_end, check_end, make_schedule
from adlm.process.times import make_times
from adlm.process.weight import Weight, make_weight
from adlm.types import Batch, Noise, View

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


def prior(alpha: float, real: int) -> float:
    """KL(q_1 || uniform) of a token of which a share alpha is left, among N real ones, in nats.

    Example:
        >>> prior(0.0, 5), round(prior(1.0, 5), 4)  # nothing is told; all of it, log 5
        (0.0, 1.6094)
    """
    each = (1 - alpha) / real
    own = alpha + each
    rest = (real - 1) * each
    return own * math.log(own * real) + (rest * math.log(each * real) if rest else 0.0)


def pick(values: Tensor, token: Tensor) -> Tensor:
    """Return the value of each row's token: (N, V), (N,) -> (N,)."""
    return values.gather(1, token[:, None]).squeeze(1)


class KernelDiffusion(Objective):
    """The common part of objectives on a kernel in continuous time; a file each fills it in."""

    causal, exact = False, False
    parameterization = "prediction"
    kernels: ClassVar[tuple[str, ...]]  # what process.kernel may name
    timed: ClassVar[bool] = True  # must the network see the noise level?

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        self.check(config)
        process = config.process
        schedule = make_schedule(process.schedule)
        self.kernel = make_kernel(process.kernel, schedule, vocab.mask, vocab.size)
        self.prior = 0.0  # nats of a token that z_1 still tells
        if process.kernel == "uniform":
            self.prior = prior(alpha_at_end(schedule), self.kernel.real)
        else:
            check_end(schedule, process.schedule)
        self.times = make_times(process.times)
        self.weight = self.weighting(process.weight)
        self.eps, self.conditioned = process.eps, process.conditioned
        check_times(process, self.times)
        if self.kernel.uniform and process.weight == "flat":
            raise UserError(
                "process.weight flat counts hidden tokens alike, and noise of real tokens hides "
                "none: take bound or clamp:MOST"
            )
        self.bound = self.eps == 0 and process.weight == "bound"
        whole = "" if self.eps == 0 else f" in [{self.eps:g}, {1 - self.eps:g}]"
        self.estimator = f"NELBO, {process.kernel} noise, continuous time{whole}"

    def check(self, config: Config) -> None:
        """Raise UserError where the process is not one of this objective's."""
        process, name = config.process, config.objective
        if process.kernel.partition(":")[0] not in self.kernels:
            right = " or ".join(self.kernels)
            raise UserError(
                f"the objective {name} needs process.kernel {right}, found '{process.kernel}'"
            )
        if process.masking != "bernoulli" or process.steps or process.remask:
            raise UserError(
                f"the objective {name} draws every token by itself in continuous time: "
                "process.masking must be bernoulli, process.steps and process.remask 0"
            )
        anchored = config.model.anchor_blocks > 0
        if anchored and process.kernel == "uniform" and config.anchor.positions == "masked":
            raise UserError(
                "anchor.positions masked needs masks, and uniform noise has none: take all"
            )
        if self.timed and not process.conditioned:
            raise UserError(
                f"the objective {name} needs a network that sees the noise level: "
                "process.conditioned must be true (and model.time above 0)"
            )

    def weighting(self, spec: str) -> Weight:
        """Return what `process.weight` makes of a weight in the bound."""
        return make_weight(spec)

    @classmethod
    def for_scoring(cls, config: Config) -> Config:
        config = of_bound(config)
        return replace(config, process=replace(config.process, eps=0.0))

    @classmethod
    def head_share(cls, config: Config) -> float:
        return 0.5 if config.process.kernel == "mask" else 1.0

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise:
        t = self.times(torch.rand(rows, generator=generator))
        u = torch.rand(rows, length, generator=generator)
        token = torch.rand(rows, length, generator=generator) if self.kernel.uniform else None
        return Noise(t, u, token=token)

    def view(self, batch: Batch, noise: Noise | None) -> View:
        assert noise is not None
        t, slope = self.clock(times(self.eps + (1 - 2 * self.eps) * noise.t))  # (B,) fp64
        z = self.kernel.draw(batch.x, batch.free, replace(noise, t=t))
        return self.shown(batch, z, t, slope)

    def shown(self, batch: Batch, z: Tensor, t: Tensor, slope: Tensor) -> View:
        """The view of z_t: (B, L); t and slope: (B,) fp64."""
        wanted = batch.scored if self.kernel.uniform else batch.scored & (z == self.mask)
        weight = self.weigh(z, batch.x, t[:, None]) * slope[:, None]  # (B, L)
        level = self.kernel.level(self.kernel.schedule.alpha(t))
        sigma = bring(level, z.device) if self.conditioned else None
        context = Context(Layout(self.causal, segments(batch)), sigma)
        return View(z, batch.x, wanted, bring(weight, z.device), t, context)

    def clock(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Times t(v) of even draws v: (B,), and dt/dv, by which they count."""
        return v, torch.ones_like(v)

    def weigh(self, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return what positions count in training, or in the bound: (B, L) fp64; t: (B, 1)."""
        return self.weight(self.kernel.weight(z, x, t) * self.kernel.shares(t).alpha)

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        alpha, each = self.at_wanted(view, h)
        z, x = view.z[view.wanted], view.x[view.wanted]

        def cost(logits: Tensor, z: Tensor, x: Tensor, alpha: Tensor, each: Tensor) -> Tensor:
            return divergence(logits, z, x, alpha, each, self.mask, self.kernel.uniform) / alpha

        return chunked(cost, h, head, view.scale, z, x, alpha, each)

    def hidden(self, view: View) -> Tensor:
        return view.wanted & (view.z == self.mask)

    def aside(self, model: Denoiser, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """Add KL(q_1 || uniform) of each token, where something of a text is left at t = 1."""
        if not self.prior:
            return None
        rows = batch.scored.to(wide(batch.x.device)).sum(dim=1).double() * self.prior
        return bring(rows.sum(), batch.x.device), rows

    def at_wanted(self, view: View, h: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and each at the wanted positions: (N,), as precise as the logits."""
        assert view.t is not None
        at = self.kernel.shares(view.t)
        row = view.wanted.nonzero()[:, 0]
        wide = torch.promote_types(h.dtype, torch.float32)
        alpha, each = (bring(share, h.device).to(wide)[row] for share in (at.alpha, at.each))
        return alpha, each
