"""The SUBS rules of masked diffusion, as pure functions of logits.

    zero-masking:  p(x^l = m) = 0           the denoiser never predicts the mask
    carry-over:    p(x^l = z^l) = 1         where z^l is not the mask, it stays as it is

The objective needs neither as an array: it scores masked positions only (carry-over) with the
mask's logit left out of the normaliser (zero-masking). Samplers and tests use these.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def zero_masking(logits: Tensor, mask_id: int) -> Tensor:
    """log p over the vocabulary without the mask. logits: (..., V) -> (..., V) fp32 or wider."""
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    is_mask = torch.arange(logits.shape[-1], device=logits.device) == mask_id
    return F.log_softmax(wide.masked_fill(is_mask, -torch.inf), dim=-1)


def carry_over(log_p: Tensor, z: Tensor, mask_id: int) -> Tensor:
    """One-hot at visible positions. log_p: (B, L, V), z: (B, L) -> (B, L, V).

    Example:
        >>> log_p = zero_masking(torch.zeros(1, 2, 3), mask_id=2)
        >>> carry_over(log_p, torch.tensor([[0, 2]]), mask_id=2).exp()
        tensor([[[1.0000, 0.0000, 0.0000],
                 [0.5000, 0.5000, 0.0000]]])
    """
    stay = torch.full_like(log_p, -torch.inf).scatter(-1, z[..., None], 0.0)
    return torch.where((z != mask_id)[..., None], stay, log_p)
