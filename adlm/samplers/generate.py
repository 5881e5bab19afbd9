"""From a model and a prompt to texts: sets up the canvas, picks the sampler, reports the cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from adlm import registry
from adlm.config import Config, check
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.denoiser import Denoiser
from adlm.process.schedule import make_schedule
from adlm.samplers.base import Canvas, run
from adlm.samplers.categorical import Draw
from adlm.samplers.causal import run_causal
from adlm.samplers.random import RowRandom

ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Samples:
    """Generated rows and what they cost."""

    tokens: np.ndarray  # (n, L)
    texts: list[str]
    nfe: np.ndarray  # (n,) network passes of each row
    seconds: float
    sampler: str


def samplers_for(config: Config) -> list[str]:
    """The samplers that a checkpoint can serve."""
    causal = registry.lookup("objective", config.objective).causal
    return ["causal"] if causal else registry.names("sampler")


def generate(
    model: Denoiser,
    config: Config,
    vocab: Vocab,
    n: int = 1,
    prompt: str = "",
    sampler: str | None = None,
    steps: int = 0,
    draw: Draw = Draw(),
    seed: int = 0,
    length: int = 0,
    device: str = "cpu",
    precision: str = "fp32",
    watch: Callable[[int, Canvas], None] | None = None,
) -> Samples:
    """Write n rows after a prompt. Row i is the same whatever n is."""
    known = samplers_for(config)
    sampler = sampler or known[0]
    if sampler not in known:
        raise UserError(
            f"a checkpoint of {config.objective} cannot be sampled by '{sampler}'; "
            f"it has {', '.join(known)}"
        )
    length = length or config.data.length
    check(n >= 1, "--n", n, "at least 1")
    check(2 <= length <= config.data.length, "--length", length, f"2 to {config.data.length}")
    check(0 <= seed < 2**31, "--seed", seed, "in [0, 2^31)")
    check(steps >= 0, "--steps", steps, "at least 1")
    given = vocab.encode([prompt])[0] if prompt else np.zeros(0, dtype=np.int64)
    if len(given) >= length:
        raise UserError(f"the prompt has {len(given)} tokens, and only {length} fit")
    steps = length if sampler == "first-hitting" else steps or length
    began = time.monotonic()
    tokens, nfe = [], []
    for low in range(0, n, ROWS_AT_ONCE):
        rows = range(low, min(n, low + ROWS_AT_ONCE))
        z = torch.full((len(rows), length), vocab.mask)
        z[:, : len(given)] = torch.from_numpy(given)
        frozen = (torch.arange(length) < len(given)).expand_as(z)
        canvas = Canvas(
            z.to(device),
            frozen.to(device),
            vocab.mask,
            model.eval(),
            draw,
            RowRandom(seed, rows),
            precision,
        )
        if sampler == "causal":
            run_causal(canvas, vocab.bos, watch)
        else:
            policy = registry.lookup("sampler", sampler)(make_schedule(config.process.schedule))
            run(canvas, policy, steps, watch)
        tokens.append(canvas.z.cpu().numpy())
        nfe.append(canvas.nfe.numpy())
    made = np.concatenate(tokens)
    seconds = time.monotonic() - began
    texts = [vocab.decode(row) for row in made]
    return Samples(made, texts, np.concatenate(nfe), seconds, sampler)
