"""The memory that a plan foretells is what a training step takes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from adlm.cli import main
from adlm.config import Config
from adlm.models.build import build_model
from adlm.models.cost import parameters
from adlm.models.footprint import Live, footprint, passes
from adlm.models.size import resize
from adlm.nn.context import Context
from adlm.recipes import recipe
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.world import World


def measured(config: Config, run: Path) -> tuple[int, int]:
    """Most bytes that torch's allocator had at a time in a real step, and the vocabulary's size.

    The profiler lists each allocation and release; what is there before the step is counted.
    """
    workload = LanguageModelling(config, "cpu")
    engine = Engine(workload, run, World())
    engine.advance()  # moments are made in the first step
    moments = [v for o in engine.optim.all.values() for s in o.state.values() for v in s.values()]
    there = [*workload.model.parameters(), *workload.model.buffers(), *engine.ema.average, *moments]
    held = sum(t.nbytes for t in there if isinstance(t, torch.Tensor))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        engine.advance()
    now = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return held + most, workload.vocab.size


CASES = {
    "AdamW and an average": ("laptop-mdlm", "micro", {"optim.name": "adamw", "optim.ema": 0.99}),
    "in pieces, by Muon": ("laptop-mdlm", "tiny", {"train.micro": 4, "train.batch": 8}),
    "anchored": ("laptop-adlm", "micro", {}),
    "autoregressive": ("laptop-ar", "micro", {}),
    "bf16": ("laptop-mdlm", "micro", {"train.precision": "bf16"}),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_is_foretold_within_15_percent(name, text_file, tmp_path):
    start, size, changes = CASES[name]
    config = resize(recipe(start), size)
    base = {"data.name": str(text_file), "data.tokenizer": "bpe:300", "train.batch": 16}
    for place, value in {**base, "train.precision": "fp32", **changes}.items():
        part, field = place.split(".")
        config = replace(config, **{part: replace(getattr(config, part), **{field: value})})
    found, vocab_size = measured(config, tmp_path)
    said = footprint(config, vocab_size, precision=config.train.precision).at_once
    assert abs(said / found - 1) < 0.15, (said, found)


def test_fake_tensors_are_counted_as_real_ones_are():
    """The same pass on real tensors, watched in the same way."""
    config = resize(recipe("laptop-mdlm"), "pico")
    fake = passes(config, 300, 2, "fp32")
    torch.manual_seed(0)
    model = build_model(config, 300).train()
    wanted = torch.zeros(2, config.data.length, dtype=torch.bool)
    wanted.view(-1)[: config.data.length] = True  # half of all, as masked diffusion asks
    x = torch.zeros(wanted.shape, dtype=torch.long)
    with Live() as live:
        for there in (*model.parameters(), *model.buffers(), x, wanted):
            live.see(there)
        before = live.now
        h = model(x, Context(wanted=wanted)).denoiser
        kept = live.now - before
        h.sum().backward()
    assert abs(fake.kept / kept - 1) < 0.02
    assert abs(fake.most / (live.most - before) - 1) < 0.02


def test_block_diffusion_is_planned_and_its_masks_stay_real():
    config = resize(recipe("laptop-bd3lm"), "pico")
    plain = replace(config, objective="mdlm")
    assert footprint(config, 300).activations > 1.5 * footprint(plain, 300).activations
    model = build_model(config, 300)
    x = torch.zeros(1, config.data.length, dtype=torch.long)
    z, layout = model.shown(x, x)
    assert type(model(z, Context(layout)).denoiser) is torch.Tensor


def test_1300_million_parameters_are_planned_without_memory_for_them():
    config = recipe("owt-adlm-xl")
    assert 1.3e9 < parameters(config, 50258) < 1.4e9
    alone, shared = (footprint(config, 50258, 64, shard, "bf16") for shard in ("none", "full"))
    assert alone.weights == alone.gradients == alone.average == 4 * parameters(config, 50258)
    for part in ("weights", "gradients", "moments", "average"):
        assert getattr(alone, part) // getattr(shared, part) in (63, 64)
    assert alone.activations == shared.activations
    one = replace(config, train=replace(config.train, micro=1))
    assert footprint(one, 50258, 64, "full", "bf16").activations < shared.activations / 4


def test_a_plan_says_what_it_costs(adlm_cli):
    words = ("plan", "owt-adlm-medium", "--gpu", "h100", "--count", 64, "--shard", "full")
    said = adlm_cli(*words, "--price", 2)
    lines = dict(
        re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in said.stdout.splitlines()[1:]
    )
    hours, cost = re.match(r"([\d,]+): ([\d,]+) at 2 an hour", lines["GPU hours"]).groups()
    assert abs(int(cost.replace(",", "")) - 2 * int(hours.replace(",", ""))) <= 1
    for part in ("weights", "gradients", "moments", "EMA", "activations", "logits"):
        assert "GiB" in lines[part]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--count", 10_000, "--gpu", "h100"), "--count must be at most train.batch 512"),
        (("--price", 2), "--price must be given with --gpu"),
        (("--shard", "half"), "shard must be one of"),
        (("--utilisation", 1.5), "--utilisation must be in (0, 1]"),
    ],
)
def test_a_plan_that_makes_no_sense_is_one_sentence(words, says, capsys):
    assert main(["plan", "owt-adlm", *map(str, words)]) == 2
    assert says in capsys.readouterr().err
