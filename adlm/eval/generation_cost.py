"""What it costs a model to write some texts: time, passes, FLOPs, and memory of its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace

import torch

from adlm import api, registry
from adlm.config import Config
from adlm.errors import UserError
from adlm.eval.texts import Texts
from adlm.models.cost import flops_per_token
from adlm.samplers import template
from adlm.samplers.cache import CacheSettings
from adlm.samplers.choice import in_blocks
from adlm.system import peak_memory_mib

WORKER = (
    "import json, sys; from dataclasses import asdict;"
    "from adlm.eval.generation_cost import EfficiencyCase, cost;"
    "print(json.dumps([asdict(part) for part in cost(EfficiencyCase(**json.loads(sys.argv[1])))]))"
)


@dataclass(frozen=True)
class EfficiencyCase:
    """One point of the grid."""

    checkpoint: str
    sampler: str | None
    steps: int | None
    length: int
    batch: int
    texts: int  # written in all, in batches
    nucleus: float
    seed: int
    device: str
    precision: str
    cache: str = "none"
    cache_every: int = 16
    threshold: float = 0.0  # of confidence sampling
    anchor_every: int = 1
    threads: int = 0  # of its process; 0 = all cores

    @property
    def passes(self) -> int:
        """Passes of the network for a text, at most."""
        return self.steps or self.length

    @property
    def exact(self) -> bool:
        """Whether texts are drawn by the model's own reverse process, as it is."""
        fresh = self.cache == "none" and self.anchor_every == 1
        return fresh and self.nucleus == 1 and self.sampler not in ("confidence", "anchor-first")

    @property
    def way(self) -> str:
        """What makes the sampler faster, in a few words."""
        said = [f"cache {self.cache}"] if self.cache != "none" else []
        said += [f"threshold {self.threshold:g}"] if self.threshold else []
        said += [f"anchors every {self.anchor_every}"] if self.anchor_every > 1 else []
        return "".join(f", {part}" for part in said)


@dataclass(frozen=True, kw_only=True)
class CaseCost(EfficiencyCase):
    """What a case cost, and the quality of its texts."""

    objective: str
    seconds_per_text: float
    tokens_per_s: float
    nfe: float
    positions: float | None = None  # of all passes of a text
    gflops_per_text: float
    peak_memory_mib: float | None
    entropy: float | None = None
    generative_ppl: float | None = None
    mauve: float | None = None  # against as many real texts; few texts make it high

    def is_of(self, case: EfficiencyCase) -> bool:
        """Is it what that case cost? One that names no sampler has the model's own."""
        asked = {k: v for k, v in asdict(case).items() if v is not None}
        return all(getattr(self, name) == value for name, value in asked.items())

    def __str__(self) -> str:
        steps = "" if self.steps is None else f", {self.steps} steps"
        grid = f"L {self.length}, batch {self.batch}"
        return f"{self.objective}, {self.sampler}{self.way}{steps}, {grid}"


def is_causal(config: Config) -> bool:
    """Does it write from left to right?"""
    return registry.lookup("objective", config.objective).causal


def cost(case: EfficiencyCase) -> tuple[CaseCost, Texts]:
    """Write the texts of a case and say what it cost; the first batch only warms up."""
    model = api.load(case.checkpoint, case.device)
    given = template.after("", case.length, model.vocab)
    made = []
    for low in range(-case.batch, case.texts, case.batch):
        how = api.settings(
            n=case.batch if low < 0 else min(case.batch, case.texts - low),
            sampler=case.sampler,
            steps=case.steps,
            nucleus=case.nucleus,
            policy={"threshold": case.threshold} if case.threshold else {},
            cache=CacheSettings(case.cache, case.cache_every),  # type: ignore[arg-type]
            anchor_every=case.anchor_every,
            seed=case.seed + max(0, low),
            precision=case.precision,
            at_once=case.batch,
        )
        written = model.write(given, how)
        made += [written] if low >= 0 else []
    seconds = sum(m.seconds for m in made)
    passes = sum(float(m.nfe.sum()) for m in made) / case.texts
    positions = sum(float(m.positions.sum()) for m in made) / case.texts
    anchors = sum(float(m.anchor_positions.sum()) for m in made) / case.texts
    heads = sum(m.heads for m in made) / case.texts
    size = (model.config, model.vocab.size, case.length)
    found = CaseCost(
        **asdict(replace(case, sampler=made[0].sampler)),
        objective=model.config.objective,
        seconds_per_text=seconds / case.texts,
        tokens_per_s=case.texts * case.length / seconds,
        nfe=passes,
        positions=positions,
        gflops_per_text=1e-9 * flops(*size, positions, anchors, heads),
        peak_memory_mib=peak_memory(model.device),
    )
    every = [t for m in made for t in m.texts], [i for m in made for i in m.ids]
    return found, Texts(*every)


def flops(
    config: Config, vocab: int, length: int, positions: float, anchors: float, heads: float
) -> float:
    """Return FLOPs of one text of `length` tokens, by the positions that were passed.

    Of an anchored network the anchor trunk passed `anchors` of them. A causal pass and one of block
    diffusion see half of the text on average, and that of another cache all of it.
    """
    partly = is_causal(config) or (in_blocks(config) and config.process.block < length)
    seen = max(1, length // 2) if partly else length
    shaped = replace(config, data=replace(config.data, length=max(2, seen)))
    both = flops_per_token(shaped, vocab, 0.0, shown=1, passes=1)
    plain = replace(shaped.model, anchor_blocks=0, bridge="linear", residual=False, shared=False)
    bare = replace(shaped, model=plain)
    alone = flops_per_token(bare, vocab, 0.0, shown=1, passes=1)
    run = positions * alone + anchors * (both - alone)
    return run + heads * 2.0 * config.model.width * vocab


def peak_memory(device: str) -> float | None:
    """MiB: of the process, or on a GPU of its tensors; None where the system does not tell."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return peak_memory_mib()


def in_process(case: EfficiencyCase) -> tuple[CaseCost, Texts]:
    """Measure a case in a process of its own, for its memory."""
    environment = dict(os.environ)
    if case.threads:
        environment["OMP_NUM_THREADS"] = str(case.threads)
    words = [sys.executable, "-c", WORKER, json.dumps(asdict(case))]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was stopped"])[-1]
        raise UserError(f"{case.checkpoint} could not be measured: {last.split(': ', 1)[-1]}")
    found, written = json.loads(done.stdout.splitlines()[-1])
    return CaseCost(**found), Texts(**written)
