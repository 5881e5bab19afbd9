"""Kernels: what noise looks like,

    q_t(z | x) = alpha_t [z = x] + (1 - alpha_t) pi_t(z).

pi is the mask (MDLM, SEDD, D3PM), any real token alike (UDLM, SEDD with uniform noise), or both
(GIDD). Each is three shares at a time: alpha stays, `hidden` is the mask's, and each of the
N = V - 1 real tokens has `each`. From those come the draw, the step back and the bound's weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adlm.device import wide
from adlm.errors import UserError
from adlm.process.reverse import noise_level
from adlm.process.schedule import Schedule
from adlm.registry import create, register
from adlm.types import Noise

EDGE = 1e-12  # times and alphas stay so far from 0 and 1, where ratios of shares have no value
# p_u of a mixture: B sqrt(EDGE) of a text is noise before all times, here 0.2 %, and costs nothing
MOST = 0.999
TINY = 1e-300


@dataclass(frozen=True)
class Shares:
    """alpha + hidden + N each = 1 at some times, with the derivatives by time: fp64, all alike."""

    alpha: Tensor
    hidden: Tensor
    each: Tensor
    dalpha: Tensor
    dhidden: Tensor
    deach: Tensor


class Kernel:
    """A kernel over V tokens, one of which is the mask.

    Example:
        >>> from adlm.process.schedule import LogLinear
        >>> kernel = Uniform(LogLinear(), mask=2, size=3)
        >>> kernel.marginal(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0.5)).tolist()
        [0.75, 0.25, 0.0]
    """

    uniform: bool  # may noise be a real token?

    def __init__(self, schedule: Schedule, mask: int, size: int):
        self.schedule, self.mask, self.size = schedule, mask, size

    @property
    def real(self) -> int:
        """N, the number of real tokens."""
        return self.size - 1

    def shares(self, t: Tensor) -> Shares:
        """Return the shares at times of any shape."""
        raise NotImplementedError

    def alpha(self, t: Tensor) -> Tensor:
        """Return the schedule's alpha, fp64; it is 0 or 1 at the ends alone.

        In fp64 a cosine's is 0 well before t = 1, and 1 - t^3 is 1 well after t = 0.
        """
        t = t.double()
        alpha = self.schedule.alpha(t)
        return torch.where((t > 0) & (t < 1), alpha.clamp(EDGE, 1 - EDGE), alpha)

    def level(self, alpha: Tensor) -> Tensor:
        """Return what a network that sees the noise level is told, by the schedule's alpha."""
        return noise_level(alpha)

    def token(self, u: Tensor) -> Tensor:
        """Real tokens, all alike, from u in [0, 1)."""
        drawn = (u.double() * self.real).long().clamp(max=self.real - 1)
        return drawn + (drawn >= self.mask)

    def draw(self, x: Tensor, maskable: Tensor, noise: Noise) -> Tensor:
        """z_t ~ q_t(. | x) at the maskable positions. x, maskable: (B, L) -> (B, L)."""
        at = self.shares(times(noise.t)[:, None])
        u = noise.u.to(at.alpha.device).double()
        hidden = (u < at.hidden).to(x.device) & maskable
        z = torch.where(hidden, self.mask, x)
        if not self.uniform:
            return z
        assert noise.token is not None
        noised = (u < 1 - at.alpha).to(x.device) & maskable & ~hidden
        return torch.where(noised, self.token(noise.token.to(u.device)).to(x.device), z)

    def start(self, u: Tensor, token: Tensor) -> Tensor:
        """z_1, all noise, from numbers in [0, 1) of positions and of tokens, alike in shape."""
        hidden = self.shares(torch.ones((), dtype=torch.float64, device=u.device)).hidden
        return torch.where(u < hidden, self.mask, self.token(token))

    def noise_at(self, z: Tensor, at: Shares) -> tuple[Tensor, Tensor]:
        """(1 - alpha) pi(z) with its derivative by time."""
        masked = z == self.mask
        return (
            torch.where(masked, at.hidden, at.each),
            torch.where(masked, at.dhidden, at.deach),
        )

    def weight(self, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return the bound's weight of a position, fp64; beta pi stands for (1 - alpha) pi:

            w(z, x, t) = [ (beta pi)'(z) - alpha'/alpha (beta pi)(z) ] / q_t(z | x),

        the rate at which tokens become z over the chance of being z.
        """
        at = self.shares(t)
        z, x = z.to(at.alpha.device), x.to(at.alpha.device)
        mass, change = self.noise_at(z, at)
        rate = change - at.dalpha / at.alpha * mass
        return rate / (mass + at.alpha * (z == x))

    def marginal(self, p: Tensor, t: Tensor) -> Tensor:
        """q_t(. | x) for x ~ p: (..., V) -> (..., V) fp64; t: (...) or a scalar."""
        at = self.shares(t[..., None])
        q = at.alpha * p.double() + at.each
        is_mask = torch.arange(self.size, device=p.device) == self.mask
        return torch.where(is_mask, q - at.each + at.hidden, q)

    def posterior(self, p: Tensor, z: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """One step back, with the prediction p in the place of x: (N, V) fp64,

            q(z_s | z_t, p) = q_{t|s}(z_t | z_s) q_s(z_s | p) / q_t(z_t | p).

        p: (N, V), z: (N,) tokens of time t; t and s < t: scalars or (N,).
        """
        now, then = self.shares(t), self.shares(s)
        keep = now.alpha / then.alpha  # alpha_{t|s}
        arrive = self.noise_at(z, now)[0] - keep * self.noise_at(z, then)[0]  # (N,)
        earlier = self.marginal(p, s)  # (N, V)
        own = earlier.gather(1, z[:, None]) * keep.reshape(-1, 1)
        joint = (arrive.reshape(-1, 1) * earlier).scatter_add(1, z[:, None], own)
        return joint / joint.sum(dim=1, keepdim=True)


@register("kernel", "mask")
class Mask(Kernel):
    """Noise is the mask."""

    uniform = False

    def shares(self, t: Tensor) -> Shares:
        alpha, dalpha = self.alpha(t), self.schedule.dalpha(t.double())
        none = torch.zeros_like(alpha)
        return Shares(alpha, 1 - alpha, none, dalpha, -dalpha, none)


@register("kernel", "uniform")
class Uniform(Kernel):
    """Noise is any real token, x itself among them."""

    uniform = True

    def shares(self, t: Tensor) -> Shares:
        alpha, dalpha = self.alpha(t), self.schedule.dalpha(t.double())
        none = torch.zeros_like(alpha)
        each, deach = (1 - alpha) / self.real, -dalpha / self.real
        return Shares(alpha, none, each, dalpha, none, deach)


@register("kernel", "mixture")
class Mixture(Kernel):
    """Noise is the mask or, most often in the middle, a real token: GIDD with gamma = 1,

        c = B sqrt(t (1 - t)),   B = 2 p_u / (1 - p_u),
        alpha = (1 - t) / (1 + c),   hidden = t / (1 + c),   N each = c / (1 + c),

    with the schedule's 1 - alpha for t. p_u is the share of real tokens among all at t = 1/2.
    """

    def __init__(self, schedule: Schedule, mask: int, size: int, share: float = 0.1):
        if not 0 <= share <= MOST:
            raise UserError(
                f"process.kernel mixture:SHARE needs a share in [0, {MOST}], found {share:g}"
            )
        super().__init__(schedule, mask, size)
        self.share, self.uniform = share, share > 0
        self.b = 2 * share / (1 - share)

    def level(self, alpha: Tensor) -> Tensor:
        """Return the time itself, as published, of the log-linear schedule."""
        return 1 - alpha

    def shares(self, t: Tensor) -> Shares:
        alpha, speed = self.alpha(t), -self.schedule.dalpha(t.double())
        gone = 1 - alpha
        root = (alpha * gone).sqrt()
        c = self.b * root
        dc = self.b * (alpha - gone) / (2 * root.clamp(min=TINY)) * speed
        total = 1 + c
        return Shares(
            alpha / total,
            gone / total,
            c / total / self.real,
            (-speed * total - alpha * dc) / total**2,
            (speed * total - gone * dc) / total**2,
            dc / total**2 / self.real,
        )


def times(t: Tensor) -> Tensor:
    """Times in fp64, away from both ends."""
    return t.to(wide(t.device)).double().clamp(EDGE, 1 - EDGE)


def make_kernel(spec: str, schedule: Schedule, mask: int, size: int) -> Kernel:
    """Return the kernel that 'mask', 'uniform' or 'mixture:SHARE' names, over `size` tokens.

    Example:
        >>> from adlm.process.schedule import LogLinear
        >>> make_kernel("mixture:0.2", LogLinear(), mask=2, size=3).b
        0.5
    """
    right = "mask, uniform or mixture:SHARE"
    return create("kernel", spec, "process.kernel", right, schedule, mask, size)
