"""Starting weights of the released code; the project's own are set where each part is made."""

from __future__ import annotations

import torch
from torch import nn

from adlm.models.denoiser import Denoiser


@torch.no_grad()
def start_as_published(model: Denoiser) -> None:
    """Draw all matrices from U(-n^-1/2, n^-1/2), n being their inputs, and biases alike.

    That is a standard deviation of (3 n)^-1/2; the embedding counts as a matrix with D inputs. Both
    vocabulary heads and the modulations by time begin at zero, as does a bridge beside the stream.
    """
    beside = "bridge" if getattr(model, "residual", False) else "no part"
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not name.startswith(beside):
            module.reset_parameters()
            if name.endswith(("head", "modulation")):
                nn.init.zeros_(module.weight)
                nn.init.zeros_(module.bias)
    bound = model.embed.weight.shape[1] ** -0.5
    nn.init.uniform_(model.embed.weight, -bound, bound)
