"""Anchors in the process: some tokens stay visible longer than others,

    alpha_t(v) = 1 - t^{k_v},     k_v = 2^{order r_v},     r_v in [-1, 1].

With `order` above 0 the tokens of high r are hidden last and written first; below 0 it is the other
way round; at 0 every k is 1, which is masked diffusion. In the time -log t a hidden token v waits
for Exp(k_v): that is all that bounds and samplers need. r comes from the counts of the training
corpus, which a checkpoint keeps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.config import Config
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.process.anchors import Anchors
from adlm.process.kernel import Kernel, Mask, make_kernel
from adlm.process.mask import hide
from adlm.process.schedule import Schedule, make_schedule
from adlm.types import Noise, Noised


def rarity(tokens: Tensor) -> Tensor:
    """(V,) counts -> (V,) r: over the corpus's tokens it is spread evenly from -1 to 1, rare last.

    Example:
        >>> rarity(torch.tensor([1.0, 3.0, 0.0])).tolist()
        [0.75, -0.25, 1.0]
    """
    return spread(tokens, tokens.argsort(descending=True, stable=True))


def spread(tokens: Tensor, order: Tensor) -> Tensor:
    """(V,) r that rises along an order of the vocabulary, evenly over the corpus's tokens.

    Example:
        >>> spread(torch.tensor([1.0, 3.0]), torch.tensor([0, 1])).tolist()
        [-0.75, 0.25]
    """
    mass = tokens[order].cumsum(0) - tokens[order] / 2
    found = torch.empty_like(tokens)
    found[order] = 2 * mass / tokens.sum() - 1
    return found


def importance(config: Config, vocab: Vocab, counts: CorpusCounts) -> Tensor:
    """(V,) r in [-1, 1] as `process.order_by` says, fp64 on the CPU."""
    counts = counts.to("cpu")
    if config.process.order_by == "anchors":
        every = torch.arange(vocab.size)[None]
        chosen = Anchors(config.anchor, vocab)(every, every >= 0, counts)[0]
        return chosen.double() * 2 - 1
    tokens = counts.tokens.double()
    if config.process.order_by == "chance":
        dealt = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))
        return spread(tokens, dealt)
    return rarity(tokens)


def exponents(config: Config, vocab: Vocab, counts: CorpusCounts | None) -> Tensor:
    """(V,) k, fp64 on the CPU; all 1 where `process.order` is 0."""
    if not config.process.order:
        return torch.ones(vocab.size, dtype=torch.float64)
    if counts is None:
        raise UserError("process.order needs the counts of the training corpus, and there are none")
    if len(counts.tokens) != vocab.size:
        raise UserError(
            f"the corpus table has {len(counts.tokens)} tokens, the vocabulary {vocab.size}"
        )
    return 2 ** (config.process.order * importance(config, vocab, counts))


def hide_by_time(
    x: Tensor, maskable: Tensor, noise: Noise, mask_id: int, exponents: Tensor
) -> Noised:
    """Hide each token v with probability t^{k_v}; weight 1 / t.

    Example:
        >>> x, free = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> noise = Noise(torch.tensor([0.5]), torch.tensor([[0.4, 0.4]]))
        >>> hide_by_time(x, free, noise, 9, torch.tensor([1.0, 2.0])).z
        tensor([[9, 1]])
    """
    masked = (noise.u < noise.t[:, None] ** exponents[x]) & maskable
    return Noised(hide(x, masked, mask_id), masked, 1 / noise.t)


def hide_in_order(
    x: Tensor, maskable: Tensor, noise: Noise, mask_id: int, exponents: Tensor
) -> tuple[Noised, Tensor]:
    """Hide exactly j of the n maskable tokens, j uniform on 1..n; weight n / sum of their k.

    A token is hidden at u^{1/k}. With j of them hidden the next one is written after
    Exp(sum of their k) in the time -log t, so the integral over t of 1 / t is that sum's inverse:
    the same bound, with the time integrated out. What looks at the time is shown that at which the
    next one is written, the largest u^{1/k} of the hidden: after the waiting time's own law.

    Example:
        >>> x, free = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> noise = Noise(torch.tensor([0.5]), torch.tensor([[0.5, 0.3]]))
        >>> noised, t = hide_in_order(x, free, noise, 9, torch.tensor([1.0, 2.0]))
        >>> noised.z, noised.weight, t
        (tensor([[9, 1]]), tensor([2.]), tensor([0.5000]))
    """
    n = maskable.sum(dim=1)  # (B,)
    j = torch.ceil(noise.t * n).long().clamp(min=1).minimum(n)  # (B,)
    k = exponents[x]  # (B, L)
    tiny = torch.finfo(noise.u.dtype).tiny
    late = noise.u.clamp(min=tiny).log() / k  # log u^{1/k}: a power would underflow, and be equal
    late = torch.where(maskable, late, torch.inf)
    rank = late.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    masked = (rank < j[:, None]) & maskable
    total = torch.where(masked, k, 0.0).sum(dim=1)
    weight = n / torch.where(n > 0, total, 1.0)
    t = torch.where(masked, late, -torch.inf).amax(dim=1).exp()
    t = t.clamp(min=torch.finfo(t.dtype).tiny)
    return Noised(hide(x, masked, mask_id), masked, weight.to(noise.t.dtype)), t


def sampled_kernel(config: Config, vocab: Vocab, counts: CorpusCounts | None) -> Kernel:
    """Return the kernel by which a checkpoint is sampled; an order needs the corpus's counts."""
    process, schedule = config.process, make_schedule(config.process.schedule)
    if not process.order:
        return make_kernel(process.kernel, schedule, vocab.mask, vocab.size)
    k = exponents(config, vocab, counts)
    return OrderedMask(schedule, vocab.mask, vocab.size, k, process.tilt)


class OrderedMask(Mask):
    """Masks of which some tokens come out first: what a sampler is told of the process."""

    def __init__(
        self, schedule: Schedule, mask: int, size: int, exponents: Tensor, tilt: bool = False
    ):
        super().__init__(schedule, mask, size)
        self.exponents, self.tilt = exponents, tilt

    def tilted(self, logits: Tensor, t: float) -> Tensor:
        """Logits of a token that is hidden at t: (N, V) -> (N, V)."""
        if not self.tilt:
            return logits
        shift = torch.log(torch.tensor(max(t, 1e-30), dtype=torch.float64))
        return logits + (self.exponents * shift).to(logits)
