"""The SUBS rules of masked diffusion.

    zero-masking:  p(x^l = m) = 0           the denoiser never predicts the mask
    carry-over:    p(x^l = z^l) = 1         where z^l is not the mask, it stays as it is

Zero-masking is `forbid_mask` everywhere; here it is as log-probabilities. Carry-over needs no
array: objectives score, and samplers write, masked positions only.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adlm.process.mask import forbid_mask

ROWS, FEW = 256, 32  # through the head, and through the softmax: they stay in the cache


def zero_masking(logits: Tensor, mask_id: int) -> Tensor:
    """log p over the vocabulary without the mask. logits: (..., V) -> (..., V) fp32 or wider."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return F.log_softmax(forbid_mask(logits.to(wide, copy=True), mask_id), dim=-1)


@torch.no_grad()
def log_probabilities(h: Tensor, head: nn.Linear, mask_id: int) -> Tensor:
    """The same from hidden states, (N, D) -> (N, V), a few rows at a time: one big array, not four.

    Example:
        >>> h, head = torch.randn(700, 4), nn.Linear(4, 5)
        >>> torch.allclose(log_probabilities(h, head, 4), zero_masking(head(h), 4))
        True
    """
    wide = torch.promote_types(h.dtype, torch.float32)
    out = torch.empty(len(h), head.out_features, dtype=wide, device=h.device)
    for rows, wanted in zip(h.split(ROWS), out.split(ROWS), strict=True):
        logits = forbid_mask(head(rows), mask_id)
        for few, log_p in zip(logits.split(FEW), wanted.split(FEW), strict=True):
            torch.log_softmax(few, dim=-1, dtype=wide, out=log_p)
    return out
