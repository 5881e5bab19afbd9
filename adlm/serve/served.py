"""A model as the server knows it: its name, what it can do, and templates within its limits."""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path

import numpy as np
from msgspec import Struct

from adlm import api, registry
from adlm.process.schedule import make_schedule
from adlm.samplers import template
from adlm.samplers.base import find_policy, make_policy
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.samplers.choice import check_memory, in_blocks, samplers_for, usual
from adlm.samplers.goals import toward
from adlm.samplers.settings import SamplingSettings
from adlm.serve.limits import ServeLimits, refuse_unless
from adlm.serve.messages import Manner, Option

CACHES = ("none", "prefix", "dual", "delayed")
COLDEST = 0.01  # lower temperatures overflow
# samplers that never take a token back: a stream may show the text as far as it stands
KEEPS = ("causal", "ancestral", "first-hitting", "confidence", "anchor-first", "blocks")


class SamplerCard(Struct):
    """A sampler that a model has, with the default of each of its own options."""

    name: str
    meaning: str
    options: dict[str, Option]


class ModelCard(Struct):
    """A model as /v1/models shows it."""

    id: str
    created: int
    objective: str
    parameters: int
    length: int  # tokens of a text at most
    causal: bool  # a hole is filled without the text behind it
    exact: bool  # is its likelihood one, or a bound?
    usual: str
    cache: str
    caches: list[str]  # what may be kept between steps
    samplers: list[SamplerCard]
    object: str = "model"
    owned_by: str = "adlm"


@dataclass(frozen=True)
class Served:
    """A loaded model under its name."""

    id: str
    model: api.Model
    limits: ServeLimits

    def settings(self, how: Manner) -> SamplingSettings:
        """Return the settings that a request asks for; seed and n are left to its rows."""
        config = self.model.config
        known, policy = samplers_for(config), dict(how.policy or {})
        cache = CacheSettings(how.cache or "none", how.cache_every or 16)
        temperature = 1.0 if how.temperature is None else how.temperature
        sentence = f"temperature must be 0, or from {COLDEST} to 100"
        refuse_unless(temperature == 0 or temperature >= COLDEST, sentence, "temperature")
        asked = SamplingSettings(
            goal=how.goal or "exact",
            sampler=how.sampler,
            steps=how.steps,
            policy=policy,
            draw=Draw(temperature, how.top_k or 0, how.top_p or 1.0),
            cache=cache,
            anchor_every=how.anchor_every or 1,
        )
        asked = toward(asked, config, known, not in_blocks(config))
        sampler = asked.sampler or usual(config)
        for name in (sampler, policy.get("inner", sampler)):  # never code from outside
            sentence = f"{self.id} has no sampler '{str(name)[:40]}'; it has {', '.join(known)}"
            refuse_unless(name in known, sentence, "sampler")
        most = 4 * self.limits.tokens
        refuse_unless((how.steps or 1) <= most, f"steps must be at most {most}", "steps")
        if sampler == "causal":
            refuse_unless(not policy, "the sampler causal has no options", "policy")
        else:
            make_policy(sampler, make_schedule(config.process.schedule), policy)
        settings = replace(asked, goal="exact", sampler=sampler)  # all is chosen now
        check_memory(settings, config)
        return settings

    def seeds(self, how: Manner) -> list[tuple[int, int]]:
        """Return the (seed, row number) of each text that a request asks for."""
        count, most = how.n or 1, self.limits.texts
        refuse_unless(count <= most, f"n must be at most {most}, found {count}", "n")
        seed = secrets.randbelow(2**31) if how.seed is None else how.seed
        return [(seed, row) for row in range(count)]

    def keeps(self, settings: SamplingSettings) -> bool:
        """Does its sampler never take a token back?"""
        return {settings.sampler, settings.policy.get("inner", "causal")} <= set(KEEPS)

    def fits(self, given: np.ndarray, settings: SamplingSettings) -> np.ndarray:
        """Return the template, (L,), or refuse one that is too long or has nothing to write."""
        most, own = self.limits.tokens, self.model.config.data.length
        rotary = self.model.config.model.positions == "rotary"
        moving = settings.sampler == "blocks" or (in_blocks(self.model.config) and rotary)
        most = most if moving else min(own, most)
        refuse_unless(len(given) <= most, f"the text has {len(given)} tokens, and only {most} fit")
        refuse_unless(bool((given == self.model.vocab.mask).any()), "the text has no hole")
        return given

    def between(self, prompt: str, suffix: str, count: int) -> tuple[np.ndarray, slice]:
        """Return prompt, `count` masks and suffix as a template (L,), and where the masks are."""
        vocab = self.model.vocab
        self.check_text(prompt + suffix, "prompt")
        sentence = f"max_tokens must be at most {self.limits.tokens}, found {count}"
        refuse_unless(count <= self.limits.tokens, sentence, "max_tokens")
        before, after = template.ids(prompt, vocab), template.ids(suffix, vocab)
        whole = np.concatenate([before, np.full(count, vocab.mask), after])
        return whole, slice(len(before), len(before) + count)

    def holes(self, text: str) -> np.ndarray:
        """Return a text with holes as a template: (L,)."""
        self.check_text(text, "text")
        size = 0
        for digits in template.HOLE.findall(text):
            size += int(digits[:7] or 1)
            sentence = f"the holes have more than {self.limits.tokens} tokens"
            refuse_unless(size <= self.limits.tokens, sentence, "text")
        return template.holes(text, self.model.vocab)

    def ids(self, given: Sequence[int | None]) -> np.ndarray:
        """Return token ids with None for holes as a template: (L,)."""
        vocab = self.model.vocab
        size = vocab.size
        right = all(t is None or (0 <= t < size and t != vocab.mask) for t in given)
        refuse_unless(
            right, f"template must have token ids from 0 to {size - 1}, or null", "template"
        )
        return np.array([vocab.mask if t is None else t for t in given], dtype=np.int64)

    def check_text(self, text: str, field: str) -> None:
        """Refuse a text that is too long before it is encoded."""
        most = 64 * self.limits.tokens
        refuse_unless(len(text) <= most, f"{field} must have at most {most} characters", field)

    def card(self, created: int) -> ModelCard:
        """Return what /v1/models shows."""
        config, network = self.model.config, self.model.network
        kind = registry.lookup("objective", config.objective)
        in_order = kind.causal or kind.in_blocks
        cached = "exact keys and values, always on" if in_order else ""
        caches = ["none"] if in_order or config.model.shift else list(CACHES)
        return ModelCard(
            self.id,
            created,
            config.objective,
            sum(p.numel() for p in network.parameters()),
            min(config.data.length, self.limits.tokens),
            in_order,
            bool(kind.exact),
            usual(config),
            cached,
            caches,
            [sampler_card(name) for name in samplers_for(config)],
        )


def sampler_card(name: str) -> SamplerCard:
    """Return a sampler's first line, and the defaults of its options."""
    if name == "causal":
        return SamplerCard(name, "One token after the other, from left to right.", {})
    kind = find_policy(name)
    said = re.sub(r"\s+", " ", (inspect.getdoc(kind) or "").split("\n\n")[0]).replace("`", "")
    own = {f.name: f.default for f in fields(kind) if f.name != "schedule"}
    return SamplerCard(name, said, {k: v for k, v in own.items() if v is not MISSING})


def load_all(runs: Sequence[str], device: str, limits: ServeLimits) -> dict[str, Served]:
    """Load models by their folders' names; a name that is taken gets a number."""
    found: dict[str, Served] = {}
    for run in runs:
        name = Path(run).expanduser().resolve().name or "model"
        names = [name, *(f"{name}-{i}" for i in range(2, len(runs) + 2))]
        free = next(n for n in names if n not in found)
        found[free] = Served(free, api.load(run, device), limits)
    return found
