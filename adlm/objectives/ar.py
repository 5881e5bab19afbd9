"""Autoregressive likelihood, exact:  -log p(x) = -sum_l log p(x^l | x^{1:l-1})."""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.config import Config, ProcessConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.objectives.base import Objective
from adlm.registry import register
from adlm.types import Batch, Noise, View


def shift_right(x: Tensor, segment: Tensor | None, bos: int) -> Tensor:
    """Return what is seen when x^l is predicted: x^{l-1}, or BOS at the start of a row or segment.

    Every token of a row is scored, the first one too: AR and diffusion score the same tokens.

    Example:
        >>> shift_right(torch.tensor([[5, 6, 7]]), torch.tensor([[0, 0, 1]]), bos=9)
        tensor([[9, 5, 9]])
    """
    seen = torch.cat((torch.full_like(x[:, :1], bos), x[:, :-1]), dim=1)
    if segment is None:
        return seen
    first = torch.ones_like(segment, dtype=torch.bool)
    first[:, 1:] = segment[:, 1:] != segment[:, :-1]
    return torch.where(first, bos, seen)


@register("objective", "ar")
class Autoregressive(Objective):
    """Next-token prediction."""

    causal = True
    exact = True
    bound = True
    estimator = "exact: chain rule, one pass"

    def __init__(self, config: Config, vocab: Vocab):
        super().__init__(config, vocab)
        process, plain = config.process, ProcessConfig()
        if (process.kernel, process.steps) != (plain.kernel, plain.steps):
            raise UserError(
                f"the objective {config.objective} has no noise: process.kernel must be "
                f"{plain.kernel} and process.steps {plain.steps}, "
                f"found {process.kernel} and {process.steps}"
            )
        self.bos = vocab.bos

    @classmethod
    def head_share(cls, config: Config) -> float:
        return 1.0

    def noise(self, rows: int, length: int, generator: torch.Generator) -> None:
        return None

    def view(self, batch: Batch, noise: Noise | None) -> View:
        ones = torch.ones(len(batch), device=batch.x.device)
        seen = shift_right(batch.x, batch.segment, self.bos)
        context = Context(Layout(self.causal, batch.segment))
        return View(seen, batch.x, batch.scored, ones, context=context)
