"""The one step of the reverse process, from t to s < t.

With the remasking probability sigma, at most sigma_max = min(1, (1 - alpha_s) / alpha_t),

    a masked position is written   with probability  (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t)
    a visible token is masked      with probability  sigma

so that the share of visible tokens is alpha_s after the step, whatever sigma is. The first of them
is |lambda_t|, which also weighs the cross-entropy of masked tokens in the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Transition:
    """The step between two levels of the schedule.

    Example:
        >>> step = Transition.of(0.5, 0.75)
        >>> step.unmask().item(), step.sigma_max.item(), step.unmask(0.5).item()
        (0.5, 0.5, 1.0)
    """

    alpha_t: Tensor  # any shape: the share of visible tokens before the step
    alpha_s: Tensor  # the same shape: after it

    @classmethod
    def of(cls, alpha_t: float | Tensor, alpha_s: float | Tensor) -> Transition:
        """Make the step from plain numbers, in fp64, or from a tensor of each."""
        wide = torch.float64
        return cls(torch.as_tensor(alpha_t, dtype=wide), torch.as_tensor(alpha_s, dtype=wide))

    @property
    def sigma_max(self) -> Tensor:
        """The largest remasking probability: with more, too few would be visible at s."""
        largest = (1 - self.alpha_s) / self.alpha_t.clamp(min=1e-30)
        return torch.where(self.alpha_t > 0, largest, torch.inf).clamp(max=1.0)

    def cut(self, sigma: float | Tensor) -> Tensor:
        """Cut a remasking probability to its valid range.

        Example:
            >>> Transition(torch.tensor([0.0, 0.8]), torch.tensor([0.1, 0.9])).cut(0.5)
            tensor([0.5000, 0.1250])
        """
        wanted = torch.as_tensor(sigma, dtype=self.alpha_t.dtype, device=self.alpha_t.device)
        return wanted.minimum(self.sigma_max)

    def weight(self, sigma: float | Tensor = 0.0, steps: int = 1) -> Tensor:
        """T |lambda_t|: the weight of the cross-entropy in the bound when one of T steps is drawn.

        Where alpha_t is 1 nothing is hidden, and the weight is finite.
        """
        hidden = (1 - self.alpha_t).clamp(min=torch.finfo(self.alpha_t.dtype).tiny)
        return steps * (self.alpha_s - (1 - sigma) * self.alpha_t) / hidden

    def unmask(self, sigma: float | Tensor = 0.0) -> Tensor:
        """Probability with which a masked position is written, at most 1.

        Where alpha_t is 1 to the last bit no position should be masked: all that are get written.
        """
        return torch.where(self.alpha_t < 1, self.weight(sigma).clamp(max=1.0), 1.0)


def noise_level(alpha: Tensor) -> Tensor:
    """-log alpha_t, at most -log 1e-4: what a network that sees the noise level is told."""
    return -torch.log(alpha.clamp(min=1e-4))
