"""The facade that a notebook uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adlm import device as devices
from adlm.config import Config, check
from adlm.data.cache import TokenStore
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.pack import pack
from adlm.data.vocab import Vocab
from adlm.errors import UserError, nearest
from adlm.models import checkpoint
from adlm.models.denoiser import Denoiser
from adlm.models.hub import load_model
from adlm.objectives.likelihood import evaluator, length_nats, score
from adlm.registry import allow, outside
from adlm.remote import download, is_name
from adlm.samplers import template
from adlm.samplers.base import Watch
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.samplers.generate import Samples, Settings, generate
from adlm.samplers.trace import Trace

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

    def generate(
        self,
        n: int = 1,
        prompt: str = "",
        length: int | None = None,
        max_new_tokens: int | None = None,
        **how: Any,
    ) -> list[str]:
        """n texts after a prompt, of `length` tokens in all or of `max_new_tokens` after it.

        `how` is sampler, steps, policy (the sampler's own options), temperature, top_k, nucleus
        (or top_p), compat, cache (its name, or CacheSettings), anchor_every and seed; num_samples
        is another name of n.
        """
        given = self.blank(prompt, length, max_new_tokens)
        return self.write(given, settings(n=n, **how)).texts

    def blank(
        self, prompt: str = "", length: int | None = None, new: int | None = None
    ) -> np.ndarray:
        """The template of a text after a prompt: (L,), by default of the trained length."""
        if length is not None and new is not None:
            raise UserError("give --length (with the prompt) or --max_new_tokens, not both")
        wanted = self.config.data.length if length is None else length
        return template.after(prompt, wanted, self.vocab, new)

    def infill(self, text: str, n: int = 1, **how: Any) -> list[str]:
        """n ways to fill the holes of a text, `The [MASK] of the union is [MASK:4] .`"""
        return self.write(template.holes(text, self.vocab), settings(n=n, **how)).texts

    def trace(self, prompt: str = "", text: str | None = None, n: int = 1, **how: Any) -> Trace:
        """The record of how texts are written: after a prompt, or into the holes of a text.

        `adlm.viz.html.write_replay(trace, "out.html")` makes a page of it.
        """
        given = self.blank(prompt) if text is None else template.holes(text, self.vocab)
        return self.record(given, settings(n=n, **how))[1]

    def write(self, given: np.ndarray, how: Settings, watch: Watch | None = None) -> Samples:
        """Write the masks of a template: (L,) token ids."""
        precise = replace(how, precision=devices.precision(how.precision, self.device))
        return generate(self.network, self.config, self.vocab, given, precise, self.device, watch)

    def record(self, given: np.ndarray, how: Settings) -> tuple[Samples, Trace]:
        """The same with a record of every step."""
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

    def nll(
        self,
        texts: Sequence[str],
        draws: int = 16,
        seed: int = 0,
        length: Literal["coded", "given"] = "coded",
    ) -> np.ndarray:
        """Nats of each text, its end included: exact for AR, an upper bound for diffusion.

        A diffusion model sees how many tokens a text has. `coded` adds what that number costs (by
        the lengths of the training documents, see `data/lengths.py`): a bound of -log p(text), as
        AR's. `given` leaves it out: a bound of -log p(text | its number of tokens). For AR the two
        are one. A text longer than the model's context is scored in pieces of that length.
        """
        check(length in ("coded", "given"), "length", length, "coded or given")
        objective = evaluator(self.config, self.vocab)
        if isinstance(texts, str):
            raise UserError("nll takes a list of texts: [text] for one")
        if not all(text.strip() for text in texts):
            raise UserError("every text must have at least one character that is not a space")
        ids = [np.append(e, self.vocab.eos) for e in self.vocab.encode(texts)]
        if not ids:
            return np.zeros(0)
        ends = np.cumsum([len(i) for i in ids])
        store = TokenStore(np.concatenate(ids), ends, 0, "")
        rows = pack(store, self.vocab, self.config.data.length, "document")
        found = score(
            self.network,
            objective,
            rows,
            np.arange(len(rows)),
            draws,
            seed,
            device=self.device,
            quiet=True,
        )
        if length == "coded" and not objective.exact:
            found = found.plus(length_nats(rows, found.index, self.lengths))
        return np.bincount(rows.document, found.nats.mean(axis=1), minlength=len(texts))


ALIASES = {"top_p": "nucleus", "num_samples": "n"}  # names that other libraries have


def settings(**how: Any) -> Settings:
    """Settings from plain keywords; those of a draw may stand among them."""
    for alias, name in ALIASES.items():
        if alias in how:
            value = how.pop(alias)
            if how.get(name, 1) not in (1, value):  # 1 is the default of either
                raise UserError(f"{alias} is another name of {name}: give one of them")
            how[name] = value
    own = {f.name for f in fields(Settings)}
    drawn = {f.name for f in fields(Draw)}
    if isinstance(how.get("cache"), str):
        how["cache"] = CacheSettings(how["cache"])
    unknown = sorted(set(how) - own - drawn)
    if unknown:
        raise UserError(f"there is no setting '{unknown[0]}'{nearest(unknown[0], own | drawn)}")
    for given in (how.get("sampler"), (how.get("policy") or {}).get("inner")):
        if given and outside("sampler", given):
            allow(given)
    draw = Draw(**{k: v for k, v in how.items() if k in drawn})
    return Settings(**{"draw": draw, **{k: v for k, v in how.items() if k in own}})


def load(path: str | Path, device: str = "auto", use: Sequence[str] = ()) -> Model:
    """Load a checkpoint, the newest one of a run, or what the hub has as user/name.

    `use` are names of your own code, module:name, that the checkpoint may name; what it names
    beyond that is not imported.
    """
    allow(*([use] if isinstance(use, str) else use))
    saved = checkpoint.load(fetched(str(path)))
    where = devices.pick(device)
    network, counts = load_model(saved, where), saved.counts()
    return Model(network, saved.vocab, saved.config, where, saved.lengths(), counts)


def fetched(path: str) -> str:
    """The same path, or the folder into which the hub's model of that name was downloaded."""
    if not is_name(path) or "/" not in path:
        return path
    folder = download(path, checkpoint.FILES)
    if not (folder / checkpoint.MANIFEST).is_file():
        raise UserError(f"{path} is not in adlm's format: adlm import {path} --out DIR may read it")
    return str(folder)
