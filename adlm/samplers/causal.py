"""Autoregressive generation with a KV cache: AR and A2R, one position after the other."""

from __future__ import annotations

import torch

from adlm import device as devices
from adlm.nn.context import Context
from adlm.samplers.base import Watch
from adlm.samplers.canvas import Canvas


def run_causal(
    canvas: Canvas,
    bos: int,
    watch: Watch | None = None,
    cached: bool = True,
) -> None:
    """Fill the open positions from left to right; frozen ones are read as they come.

    `cached=False` recomputes the whole prefix each time: the tested reference.
    """
    batch, length = canvas.z.shape
    device = canvas.z.device
    cache = canvas.model.new_cache() if cached else None
    seen = torch.full((batch, 1), bos, dtype=torch.long, device=device)
    if watch:
        watch(0, canvas)
    for position in range(length):
        with torch.no_grad(), devices.autocast(canvas.precision, canvas.device):
            shown = (seen[:, -1:] if cached else seen).to(canvas.device)
            h = canvas.model(shown, Context(cache=cache)).denoiser[:, -1]  # (B, D)
            logits = canvas.model.head(h).to(device)
        canvas.heed(logits)
        canvas.nfe += 1
        canvas.passed += shown.shape[1]
        canvas.anchors_passed += shown.shape[1]
        canvas.heads += batch
        u = canvas.random.uniform(1)[:, 0].to(device)
        token, probability = canvas.draw(logits, u, canvas.mask)
        chosen = torch.zeros_like(canvas.open)
        chosen[:, position] = canvas.open[:, position]
        canvas.write(chosen, token[chosen[:, position]], probability[chosen[:, position]])
        seen = torch.cat((seen, canvas.z[:, position : position + 1]), dim=1)
        if watch:
            watch(position + 1, canvas)
