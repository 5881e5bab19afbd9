"""Score entropy (SEDD): the network says by how much likelier each other token would be,

    e^{s_y} = q_t(y | z) / q_t(z | z)    (the own token's s is 0),

and no sum ties its numbers together. With rates R(y -> z) of the noise a position costs

    sigma'(t) sum_{y != z} R(y -> z) [ e^{s_y} - rho_y s_y + rho_y (log rho_y - 1) ],
    rho_y = q_t(y | x) / q_t(z | x).

Masks: R is 1 to the mask, rho_x = k = alpha / (1 - alpha), and the published
s = logits - log expm1(sigma) - log N is log k + log f with f = e^logits / N. The cost is MDLM's
weight times

    -log f_x + sum_y f_y - 1,

MDLM's cross-entropy with a free normaliser. Uniform noise: R is 1/N, s = logits, all positions; the
sum over k is what MDLM's weight counts.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.nn.chunked import chunked
from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import KernelDiffusion, pick
from adlm.registry import register
from adlm.types import View


@register("objective", "sedd")
class ScoreEntropy(KernelDiffusion):
    """Learn ratios of probabilities, of masked or of uniform noise."""

    kernels = ("mask", "uniform")
    parameterization = "score"

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        last = float(self.kernel.schedule.alpha(torch.ones(1, dtype=torch.float64)))
        if self.kernel.uniform and last <= 0:
            raise UserError(
                "SEDD with uniform noise counts scores without end where alpha is 0: "
                f"process.schedule must be geometric, found '{config.process.schedule}'"
            )

    def weigh(self, z: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """sigma' k = -alpha' / (1 - alpha), MDLM's weight."""
        at = self.kernel.shares(t)
        return self.weight(-at.dalpha / (1 - at.alpha)).expand(z.shape)

    def loss(self, h: Tensor, head: nn.Linear, view: View) -> tuple[Tensor, Tensor]:
        x = view.x[view.wanted]
        if not self.kernel.uniform:
            return chunked(partial(masked_entropy, mask=self.mask), h, head, view.scale, x)
        alpha, each = self.at_wanted(view, h)
        k, z = alpha / (self.kernel.real * each), view.z[view.wanted]

        def cost(logits: Tensor, z: Tensor, x: Tensor, ratio: Tensor, k: Tensor) -> Tensor:
            return uniform_entropy(logits, z, x, ratio, self.mask) / k

        return chunked(cost, h, head, view.scale, z, x, each / (alpha + each), k)


def masked_entropy(logits: Tensor, x: Tensor, mask: int) -> Tensor:
    """-log f_x + sum_y f_y - 1 at masks: (N, V) logits, (N,) tokens -> (N,).

    Example:
        >>> masked_entropy(torch.zeros(1, 3), torch.tensor([0]), mask=2)  # f is normalised: log 2
        tensor([0.6931])
    """
    is_mask = torch.arange(logits.shape[1], device=logits.device) == mask
    log_f = logits - math.log(logits.shape[1] - 1)
    total = log_f.masked_fill(is_mask, -torch.inf).logsumexp(dim=1).exp()
    return total - pick(log_f, x) - 1


def uniform_entropy(logits: Tensor, z: Tensor, x: Tensor, ratio: Tensor, mask: int) -> Tensor:
    """Return the sum over y with R = 1/N: (N, V) logits, (N,) tokens -> (N,).

    ratio: (N,) chance of another token over that of the own one, each / (alpha + each).
    """
    size = logits.shape[1]
    token = torch.arange(size, device=logits.device)
    gone = (token == mask) | (token == z[:, None])
    n = size - 1
    s = logits.masked_fill(gone, 0.0)
    positive = logits.masked_fill(gone, -torch.inf).logsumexp(dim=1).exp()
    still = z == x
    rho = torch.where(still, ratio, 1 / ratio)  # of every other token; of x alone
    entropy = rho * (rho.log() - 1)
    negative = torch.where(still, rho * s.sum(dim=1), s.sum(dim=1) + (rho - 1) * pick(s, x))
    constant = torch.where(still, (n - 1) * entropy, entropy - (n - 2))
    return (positive - negative + constant) / n


@register("objective", "adlm-sedd")
class AnchoredScoreEntropy(AnchoredObjective):
    """An anchor network in front of SEDD."""

    causal, exact = False, False
    parameterization = ScoreEntropy.parameterization
    base_class = ScoreEntropy
