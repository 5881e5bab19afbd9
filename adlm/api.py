"""The facade that a notebook uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from adlm import device as devices
from adlm.config import Config
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.vocab import Vocab
from adlm.errors import UserError, in_python
from adlm.models import checkpoint, shipped
from adlm.models.denoiser import Denoiser, States
from adlm.models.hub import load_model
from adlm.nn.context import Context
from adlm.objectives.likelihood import evaluator, length_nats, score
from adlm.objectives.texts import Nats, by_text, document_rows
from adlm.objectives.tokens import hidden_states, log_probabilities, token_ids
from adlm.registry import allow
from adlm.remote import download, is_name
from adlm.samplers import template
from adlm.samplers.base import Watch
from adlm.samplers.generate import Samples, generate
from adlm.samplers.keywords import settings
from adlm.samplers.settings import SamplingSettings
from adlm.samplers.trace import Trace
from adlm.values import check, typed
from adlm.world import World

use = allow  # code of one's own, by its name module:name


@dataclass(frozen=True)
class Model:
    """A trained model with its vocabulary."""

    network: Denoiser
    vocab: Vocab
    config: Config
    device: str
    lengths: Lengths
    counts: CorpusCounts | None = None  # of its training corpus, where its anchor rule reads them

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer itself, of the package `tokenizers`; `vocab` has its special tokens."""
        return self.vocab.tokenizer

    @overload
    def generate(
        self,
        prompt: str = "",
        n: int = 1,
        length: int | None = None,
        max_new_tokens: int | None = None,
        **how: Any,
    ) -> list[str]: ...

    @overload
    def generate(
        self,
        prompt: Sequence[str],
        n: int = 1,
        length: int | None = None,
        max_new_tokens: int | None = None,
        **how: Any,
    ) -> list[list[str]]: ...

    @in_python
    def generate(
        self,
        prompt: str | Sequence[str] = "",
        n: int = 1,
        length: int | None = None,
        max_new_tokens: int | None = None,
        **how: Any,
    ) -> list[str] | list[list[str]]:
        """n texts after a prompt, of `length` tokens in all or of `max_new_tokens` after it.

        Of a list of prompts, a list of n texts for each: the same as each prompt gets alone. `how`
        is sampler, steps, policy (the sampler's own options), temperature, top_k, nucleus (or
        top_p), compat, cache (a name, or CacheSettings), anchor_every and seed; num_samples is
        another name of n.
        """
        one = isinstance(prompt, str)
        prompts = [prompt] if isinstance(prompt, str) else texts_of(prompt, "prompt")
        given = [self.blank(p, length, max_new_tokens) for p in prompts]
        chosen = settings("length", "max_new_tokens", n=n, **how)
        texts = self.write(given, chosen).texts if given else []
        count = chosen.n
        return texts if one else [texts[i : i + count] for i in range(0, len(texts), count)]

    def blank(
        self, prompt: str = "", length: int | None = None, new: int | None = None
    ) -> np.ndarray:
        """Return the template of a text after a prompt: (L,), by default of the trained length."""
        if length is not None and new is not None:
            raise UserError("give --length (with the prompt) or --max_new_tokens, not both")
        wanted = self.config.data.length if length is None else typed(length, int, "--length")
        new = typed(new, int | None, "--max_new_tokens")
        return template.after(prompt, wanted, self.vocab, new)

    @in_python
    def infill(self, text: str, n: int = 1, **how: Any) -> list[str]:
        """n ways to fill the holes of a text, `The [MASK] of the union is [MASK:4] .`"""
        (whole,) = texts_of([text], "text")
        return self.write(template.holes(whole, self.vocab), settings(n=n, **how)).texts

    @in_python
    def trace(self, prompt: str = "", text: str | None = None, n: int = 1, **how: Any) -> Trace:
        """The record of how texts are written: after a prompt, or into the holes of a text.

        `adlm.viz.html.write_replay(trace, "out.html")` makes a page of it.
        """
        given = self.blank(prompt) if text is None else template.holes(text, self.vocab)
        return self.record(given, settings(n=n, **how))[1]

    def write(
        self,
        given: np.ndarray | Sequence[np.ndarray],
        how: SamplingSettings,
        watch: Watch | None = None,
        world: World = World(),
    ) -> Samples:
        """Write the masks of a template, (L,) token ids, or of several."""
        precise = replace(how, precision=devices.precision(how.precision, self.device))
        own = (self.network, self.config, self.vocab)
        return generate(*own, given, precise, self.device, watch, world)

    def record(self, given: np.ndarray, how: SamplingSettings) -> tuple[Samples, Trace]:
        """Return the same with a record of every step."""
        trace = Trace(given, self.vocab)
        made = self.write(given, how, trace)
        trace.mark_anchors(self.network, self.config, self.counts)
        options = "".join(f", {k} {v}" for k, v in how.policy.items())
        trace.about = (
            f"{self.config.objective}, sampler {made.sampler}{options}, {trace.steps} steps, "
            f"{made.nfe.mean():.1f} network passes a text, temperature {how.draw.temperature:g}, "
            f"nucleus {how.draw.nucleus:g}, seed {how.seed}"
        )
        return made, trace

    @in_python
    def nll(
        self,
        texts: Sequence[str],
        draws: int = 16,
        seed: int = 0,
        length: Literal["coded", "given"] = "coded",
    ) -> Nats:
        """Nats of each text, its end included: exact for AR, an upper bound for diffusion.

        An array, (texts,), whose `se` has the standard error of each, which the draws leave (0 for
        AR; more draws make it smaller).

        A diffusion model sees how many tokens a text has. `coded` adds what that number costs (by
        the lengths of the training documents, see `data/lengths.py`): a bound of -log p(text), as
        AR's. `given` leaves it out: a bound of -log p(text | its number of tokens). For AR the two
        are one. A text longer than the model's context is scored in pieces of that length.
        """
        check(length in ("coded", "given"), "length", length, "coded or given")
        check(typed(draws, int, "draws") >= 1, "draws", draws, "at least 1")
        if isinstance(texts, str):
            raise UserError("nll takes a list of texts: [text] for one")
        listed = texts_of(texts, "texts")
        if not all(text.strip() for text in listed):
            raise UserError("every text must have at least one character that is not a space")
        if not listed:
            return Nats.of(np.zeros(0), np.zeros(0))
        objective, vocab = evaluator(self.config, self.vocab, self.counts), self.vocab
        rows = document_rows(listed, vocab, self.config.data.length)
        every = np.arange(len(rows))
        net, device = self.network, self.device
        found = score(net, objective, rows, every, draws, seed, device=device, quiet=True)
        if length == "coded" and not objective.exact:
            found = found.plus(length_nats(rows, found.index, self.lengths))
        return by_text(found, len(listed), objective.exact)

    @in_python
    def token_logprobs(self, text: str) -> list[tuple[str, float]]:
        """Each token of a text with its log-probability.

        Of AR and A2R given all tokens before it: their sum is the text's. Of masked diffusion given
        all others, each hidden alone: how well it fits its place, and no likelihood when summed.
        """
        x = self._tokens(text)
        found = log_probabilities(self.network, self.config, self.vocab, x)
        return list(zip(self.vocab.pieces(x.tolist()), found.tolist(), strict=True))

    @in_python
    def hidden(self, text: str) -> Tensor:
        """(L, D) the final state of each token: what the vocabulary head reads.

        Of AR and A2R after reading it; of diffusion in the whole text, with nothing hidden.
        """
        return hidden_states(self.network, self.config, self.vocab, self._tokens(text))

    @in_python
    def forward(self, ids: Any, sigma: Any = None) -> States:
        """One pass over token ids, (B, L) or (L,): the states of denoiser and anchor network.

        `sigma`, a number or (B,), is the noise level, where the network sees it.
        """
        z, context = self._input(ids, sigma)
        with torch.no_grad():
            return self.network(z, context)

    @in_python
    def logits(self, ids: Any, sigma: Any = None) -> Tensor:
        """(B, L, V) raw logits of token ids, (B, L) or (L,); the mask's own is among them.

        Those of a diffusion model at l are about the token at l; of AR and A2R about the one after.
        """
        z, context = self._input(ids, sigma)
        with torch.no_grad():
            return self.network.logits(z, context)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, which `adlm.load` and every command read; the folder must be new."""
        home = Path(folder).expanduser()
        if home.exists() and (not home.is_dir() or any(home.iterdir())):
            raise UserError(f"{home} is there already: name a new or an empty folder")
        weights = self.network.state_dict()
        with checkpoint.whole(home) as work:
            checkpoint.write(work, self.config, self.vocab, weights, self.lengths, self.counts)

    def to(self, device: str) -> Model:
        """The same model on another device: auto, cpu, mps, cuda or cuda:N."""
        where = devices.pick(device)
        return replace(self, network=self.network.to(where), device=where)

    def _tokens(self, text: str) -> Tensor:
        """(L,) the tokens of a text that the network can see at once."""
        (whole,) = texts_of([text], "text")
        ids, most = template.ids(whole, self.vocab), self.config.data.length
        check(1 <= len(ids) <= most, "text", f"{len(ids)} tokens", f"1 to {most} tokens long")
        return torch.from_numpy(ids).to(self.device)

    def _input(self, ids: Any, sigma: Any) -> tuple[Tensor, Context]:
        """(B, L) token ids, and the noise level: (B,)."""
        z = token_ids(ids, self.vocab.size).to(self.device)
        if sigma is None:
            return z, Context()
        if not self.config.model.time:
            raise UserError("sigma is for networks that see the noise level, and this one does not")
        level = torch.as_tensor(sigma, dtype=torch.float32, device=self.device)
        return z, Context(sigma=level.expand(len(z)) if level.ndim == 0 else level)


def texts_of(values: Any, name: str) -> list[str]:
    """The values as a list of texts, or UserError."""
    listed = list(values) if isinstance(values, Iterable) else [values]
    for value in listed:
        check(isinstance(value, str), name, value, "a text, or a list of texts")
    return listed


def load(path: str | Path | None = None, device: str = "auto", use: Sequence[str] = ()) -> Model:
    """Load a checkpoint, the newest one of a run, or what the hub has as user/name.

    Without a path, the shipped model that writes best; `mdlm`, `bd3lm` and `ar` name those shipped.

    `use` are names of your own code, module:name, that the checkpoint may name; what it names
    beyond that is not imported.
    """
    allow(*([use] if isinstance(use, str) else use))
    given = None if path is None else str(path)
    saved = checkpoint.load(fetched(shipped.instead(given, shipped.WRITES)))
    where = devices.pick(device)
    network, counts = load_model(saved, where), saved.counts()
    return Model(network, saved.vocab, saved.config, where, saved.lengths(), counts)


def fetched(path: str) -> str:
    """Return the path, or the folder of the hub's model of that name."""
    if not is_name(path) or "/" not in path:
        return path
    folder = download(path, checkpoint.FILES)
    if not (folder / checkpoint.MANIFEST).is_file():
        raise UserError(f"{path} is not in adlm's format: adlm import {path} --out DIR may read it")
    return str(folder)
