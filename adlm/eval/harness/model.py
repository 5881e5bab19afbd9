"""A model class for EleutherAI's lm-evaluation-harness, for AR and diffusion checkpoints alike.

The likelihood of a continuation c after a context is exact for AR. For diffusion it is the bound in
which the context is always visible and only c is masked,

    -log p(c | context) <= E_k [ n / k * sum over k masked of -log x^l(z)[c^l] ],  k uniform on 1..n

estimated by Monte-Carlo draws; their number and mean standard error stand in the harness's output.
The model sees how many tokens c has: the bound is one given that number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from adlm import api, registry
from adlm.errors import UserError
from adlm.nn.context import Context
from adlm.objectives.likelihood import strata_variance
from adlm.objectives.subs import log_probabilities
from adlm.progress import Bar
from adlm.samplers.settings import SamplingSettings

BOUND = "lower bound of log p given the number of tokens, Monte-Carlo"


@register_model("adlm")
class Harness(LM):
    """`lm_eval.simple_evaluate(model=Harness("runs/adlm"), tasks=[...])`."""

    def __init__(
        self,
        path: str,
        draws: int = 32,
        seed: int = 0,
        device: str = "auto",
        sampler: str | None = None,
        steps: int | None = None,
        **ignored: Any,
    ):
        super().__init__()
        self.model = api.load(path, device)
        self.exact = self.model.network.causal
        self.draws, self.seed = 1 if self.exact else draws, seed
        self.sampler, self.steps = sampler, steps
        self.errors: list[float] = []  # standard error of each estimate, in nats
        self.context = self.model.config.data.length

    def get_model_info(self) -> dict[str, Any]:
        """Return what the harness writes into its results."""
        return {
            "adlm_objective": self.model.config.objective,
            "adlm_likelihood": "exact" if self.exact else BOUND,
            "adlm_draws": self.draws,
            "adlm_mean_stderr_nats": float(np.mean(self.errors)) if self.errors else 0.0,
        }

    # --- likelihood ---

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """(log p(continuation | context), would greedy decoding write it?) of each request."""
        out = []
        with Bar("likelihood", len(requests), "requests") as bar:
            for number, request in enumerate(requests, 1):
                context, continuation = request.args
                out.append(self.pair(context, continuation))
                bar.update(number)
        return out

    def pair(self, context: str, continuation: str) -> tuple[float, bool]:
        """Score a continuation; the context's trailing space belongs to its first token."""
        spaces = len(context) - len(context.rstrip())
        if spaces:
            continuation = context[-spaces:] + continuation
            context = context[:-spaces]
        whole = self.ids(context + continuation)
        given = self.ids(context)
        target = whole[len(given) :] if whole[: len(given)] == given else self.ids(continuation)
        if not target:
            return 0.0, True
        total, greedy, position = 0.0, True, 0
        while position < len(target):  # a long continuation is scored piece by piece
            piece = target[position : position + self.context]
            before = (given + target[:position])[-max(0, self.context - len(piece)) :]
            before = before if len(piece) < self.context else []
            nats, same = self.score(before, piece)
            total, greedy, position = total - nats, greedy and same, position + len(piece)
        return total, greedy

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """log p of each whole text, in pieces of the trained length."""
        out = []
        for request in requests:
            tokens = self.ids(request.args[0])
            pieces = [tokens[i : i + self.context] for i in range(0, len(tokens), self.context)]
            out.append(-sum(self.score([], piece)[0] for piece in pieces))
        return out

    def ids(self, text: str) -> list[int]:
        return self.model.vocab.encode([text])[0].tolist() if text else []

    @torch.no_grad()
    def score(self, given: list[int], target: list[int]) -> tuple[float, bool]:
        """Return nats of `target` after `given`, and whether greedy decoding would write it."""
        x = torch.tensor([given + target], device=self.model.device)
        return self.causal(x, len(given)) if self.exact else self.masked(x, len(given))

    def causal(self, x: torch.Tensor, start: int) -> tuple[float, bool]:
        net, vocab = self.model.network, self.model.vocab
        seen = torch.cat((torch.full_like(x[:, :1], vocab.bos), x[:, :-1]), dim=1)
        log_p = log_probabilities(net(seen).denoiser[0, start:], net.head, vocab.mask)  # (n, V)
        target = x[0, start:]
        nats = -log_p.gather(1, target[:, None]).cpu().double().sum()
        return float(nats), bool((log_p.argmax(dim=1) == target).all())

    def masked(self, x: torch.Tensor, start: int) -> tuple[float, bool]:
        net, vocab, config = self.model.network, self.model.vocab, self.model.config
        kind = registry.lookup("objective", config.objective)
        if kind.parameterization != "subs" or config.process.conditioned:
            raise UserError(
                "the harness scores answers by masked diffusion that does not see the time: "
                f"a checkpoint of {config.objective} can only generate there"
            )
        count = x.shape[1] - start
        generator = torch.Generator().manual_seed(self.seed)
        u = (torch.arange(self.draws) + torch.rand(self.draws, generator=generator)) / self.draws
        k = (u * count).floor().clamp(max=count - 1).long() + 1  # (M,) uniform on 1..n
        order = torch.rand(self.draws, count, generator=generator).argsort(dim=1).argsort(dim=1)
        hidden = torch.zeros(self.draws + 1, x.shape[1], dtype=torch.bool)
        hidden[:-1, start:] = order < k[:, None]
        hidden[-1, start:] = True  # for the greedy question
        hidden = hidden.to(x.device)
        z = torch.where(hidden, vocab.mask, x)
        seen, layout = net.shown(z, x.expand_as(z))
        wanted = F.pad(hidden, (0, seen.shape[1] - hidden.shape[1]))
        states = net(seen, Context(layout, wanted=wanted)).denoiser  # (N, D)
        log_p = log_probabilities(states, net.head, vocab.mask)
        target = x.expand_as(z)[hidden]
        nll = -log_p.gather(1, target[:, None]).squeeze(1).cpu().double()
        row = hidden.nonzero()[:, 0]
        sums = torch.zeros(self.draws + 1, dtype=torch.float64)
        sums = sums.index_add(0, row.cpu(), nll)[:-1] * (count / k.double())
        if self.draws > 1:
            self.errors.append(math.sqrt(strata_variance(sums.numpy()[None])[0]))
        last = row == self.draws
        return float(sums.mean()), bool((log_p[last].argmax(dim=1) == target[last]).all())

    # --- generation ---

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Texts after each context, cut before the first of the stop strings."""
        out = []
        with Bar("generating", len(requests), "requests") as bar:
            for number, request in enumerate(requests, 1):
                context, how = request.args
                out.append(self.write(context, dict(how)))
                bar.update(number)
        return out

    def write(self, context: str, how: dict[str, Any]) -> str:
        room = min(int(how.get("max_gen_toks", self.context // 2)), self.context - 1)
        given = self.ids(context)[-(self.context - room) :]
        template = np.array(given + [self.model.vocab.mask] * room)
        greedy = not how.get("do_sample", False)
        temperature = 0.0 if greedy else float(how.get("temperature", 1.0))
        settings: SamplingSettings = api.settings(
            temperature=temperature, seed=self.seed, sampler=self.sampler, steps=self.steps
        )
        made = self.model.write(template, settings)
        text = self.model.vocab.decode(made.ids[0][len(given) :])
        until = how.get("until") or []
        for stop in [until] if isinstance(until, str) else until:
            text = text.split(stop)[0] if stop else text
        return text
