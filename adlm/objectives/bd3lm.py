"""Block diffusion (BD3-LM): autoregressive from block to block, masked diffusion inside each.

    NELBO = sum_b E_t E_{z_b ~ q_t(.|x_b)} [ weight(t) *
                sum_{l in b: z_b^l = m} -log <x_theta^l(z_b, x_{<b}), x^l> ]

Each block of L' tokens has a time of its own: to the process it is what a row is to MDLM, so L' = L
is MDLM. With L' = 1 the one token is always hidden and the sum is the chain rule, exactly. One pass
over [z ; x] (see `nn/blocks.py`) scores all blocks.

Training may draw times from an interval (`process.clip`), where the loss varies less; masks whose
share of the block lies outside are drawn again. What is reported has the whole interval. Every
token is scored, the first of a row too (the released code shows it and leaves it out).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from adlm.config import Config
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.nn.blocks import BlockLayout
from adlm.nn.context import Context
from adlm.objectives.mdlm import MaskedDiffusion, segments
from adlm.process.reverse import noise_level
from adlm.registry import register
from adlm.types import Batch, Noise, View

WHOLE = (0.0, 1.0)
ROUNDING = 1e-9  # of a share k / L' that is compared with an end of the interval


@register("objective", "bd3lm")
class BlockDiffusion(MaskedDiffusion):
    """Restore the hidden tokens of every block from its others and the clean blocks before it."""

    in_blocks = True
    knows = ("clip",)

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        process = config.process
        self.block, self.clip = process.block, process.clip
        self.clocks(config.data.length)
        if self.clip != WHOLE:
            self.check_clip(config)
            self.bound = False
            self.estimator += " in [{:g}, {:g}]".format(*self.clip)
        self.exact = self.block == 1 and process.masking == "exact-k" and self.bound
        self.estimator += f", blocks of {self.block}"
        if self.exact:
            self.estimator = "exact: chain rule, blocks of 1, one pass"

    @classmethod
    def head_share(cls, config: Config) -> float:
        """With 1 to L' of L' tokens hidden, all alike, a little more than half of them.

        Else the mean share of hidden tokens over the interval of times, of masks that are drawn
        again until their share lies inside.
        """
        block, (low, high) = config.process.block, config.process.clip
        if config.process.masking == "exact-k":
            return (block + 1) / (2 * block)
        share = torch.arange(block + 1) / block
        inside = (share >= low - ROUNDING) & (share <= high + ROUNDING)
        t = torch.linspace(low, high, 101, dtype=torch.float64)[:, None]
        hidden = torch.distributions.Binomial(block, t).log_prob(torch.arange(block + 1))
        chance = hidden.masked_fill(~inside, -torch.inf).softmax(dim=1)  # (times, L' + 1)
        return float((chance * share).sum(dim=1).mean())

    def check_clip(self, config: Config) -> None:
        """Raise UserError unless masks can be drawn again until their share lies inside."""
        process = config.process
        if process.masking != "bernoulli" or process.steps or process.eps:
            raise UserError(
                "process.clip is for bernoulli masking in continuous time: process.masking must be "
                "bernoulli, process.steps and process.eps 0"
            )
        low, high = (self.block * share for share in self.shares())
        if math.ceil(low - ROUNDING) > math.floor(high + ROUNDING):
            raise UserError(
                f"process.clip {list(self.clip)} must allow a number of hidden tokens in a block "
                f"of {self.block}: none lies between {low:g} and {high:g}"
            )

    def shares(self) -> tuple[float, float]:
        """The smallest and the largest share of hidden tokens: 1 - alpha at the interval's ends."""
        low, high = (1 - self.schedule.alpha(torch.tensor(self.clip).double())).tolist()
        return low, high

    def clocks(self, length: int) -> int:
        """Return how many blocks a row has: each has a time of its own."""
        if length % self.block:
            raise UserError(
                f"process.block must divide a row of {length} tokens, found {self.block}"
            )
        return length // self.block

    def noise(self, rows: int, length: int, generator: torch.Generator) -> Noise:
        """Draw t: (B, L / L'), its strata over all blocks of the batch, and u: (B, L)."""
        count = rows * self.clocks(length)
        t = self.times(torch.rand(count, generator=generator))
        t = t[torch.randperm(count, generator=generator)]  # no block has a stratum of its own
        u = torch.rand(count, self.block, generator=generator)
        if self.clip != WHOLE:
            t = self.clip[0] + (self.clip[1] - self.clip[0]) * t
            u = self.redrawn(t, u, generator)
        return Noise(t.view(rows, -1), u.view(rows, length))

    def redrawn(self, t: Tensor, u: Tensor, generator: torch.Generator) -> Tensor:
        """u: (N, L') with the blocks drawn again that hide too few or too many; t: (N,)."""
        low, high = self.shares()
        hidden = 1 - self.schedule.alpha(t)[:, None]
        while True:
            share = (u < hidden).double().mean(dim=1)  # (N,)
            outside = (share < low - ROUNDING) | (share > high + ROUNDING)
            if not outside.any():
                return u
            u[outside] = torch.rand(int(outside.sum()), self.block, generator=generator)

    def view(self, batch: Batch, noise: Noise | None) -> View:
        x = batch.x
        rows, length = x.shape
        self.clocks(length)
        if noise is None:  # exact: the one token of a block is hidden in any case
            noise = Noise(torch.ones(x.shape, device=x.device), torch.zeros_like(x))
        cut = Batch(x.reshape(-1, self.block), batch.free.reshape(-1, self.block))
        noised, t = self.corrupt(cut, Noise(noise.t.flatten(), noise.u.reshape(-1, self.block)))

        def shown(value: Tensor) -> Tensor:
            """(N,) or (N, L') of the blocks -> (B, 2 L): nothing of the clean half."""
            row = value.view(len(cut), -1).expand(-1, self.block).reshape(rows, length)
            return F.pad(row, (0, length))

        z = torch.cat((noised.z.view_as(x), x), dim=1)
        sigma = shown(noise_level(self.schedule.alpha(t))) if self.conditioned else None
        layout = BlockLayout(segment=segments(batch), block=self.block, paired=True)
        return View(
            z,
            x.repeat(1, 2),
            shown(noised.masked) & F.pad(batch.scored, (0, length)),
            shown(self.weight(noised.weight)),
            shown(t),
            Context(layout, sigma),
        )
