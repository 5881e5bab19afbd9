"""Apple's GPUs: picked where there is one, and never asked for fp64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adlm import api, registry
from adlm import device as devices
from adlm import world as distributed
from adlm.config import AnchorConfig, ProcessConfig
from adlm.errors import UserError
from adlm.eval import lens
from adlm.process.anchors import Anchors
from adlm.samplers import template
from adlm.samplers.trace import expected
from adlm.train.log import read
from adlm.train.run import train
from tests.apple import NAME, Apple
from tests.conftest import make_config, small_corpus


def as_mps(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a kind of device, told mps for the device of these tests."""

    def known(kind: str, *given: Any, **more: Any) -> Any:
        return function("mps" if kind == NAME else kind, *given, **more)

    return known


@contextmanager
def pretending() -> Iterator[None]:
    """Inside, this machine has the device without fp64 as its GPU."""
    real, tensor, adam = devices.pick, torch.tensor, sys.modules["torch.optim.adam"]

    def made(values: Any, device: Any = None, **more: Any) -> torch.Tensor:
        return tensor(values, **more).to(device)  # torch.tensor asks no mode

    with pytest.MonkeyPatch.context() as patch, Apple():
        patch.setattr(devices, "NO_FP64", ("mps", NAME))
        patch.setattr(devices, "pick", lambda name="auto": NAME if name == "mps" else real(name))
        for name in ("autocast", "is_autocast_enabled"):  # they do not know the name
            patch.setattr(torch, name, as_mps(getattr(torch, name)))
        patch.setattr(torch, "tensor", made)
        patch.setattr(adam, "_device_dtype_check_for_fused", lambda *_, **__: None)
        yield


@pytest.fixture
def apple() -> Iterator[None]:
    with pretending():
        yield


def test_the_device_of_these_tests_has_no_fp64(apple):
    x = torch.ones(3, device=NAME)
    assert x.device.type == NAME
    for wrong in (x.double, lambda: torch.zeros(2, dtype=torch.float64, device=NAME)):
        with pytest.raises(TypeError, match="no float64"):
            wrong()
    with pytest.raises(RuntimeError, match="and on the CPU"):
        x + torch.ones(3)
    assert devices.wide(NAME) == torch.device("cpu")
    assert devices.wide("cuda:1") == torch.device("cuda:1")


KERNELS = {"udlm": "uniform", "sedd": "mask"}  # the baselines whose samplers are their own
OBJECTIVES = ["adlm", "order", *KERNELS]


def anchored(corpus: Path, objective: str, device: str) -> Any:
    config = make_config(corpus, objective, steps=2, device=device)
    if objective == "order":
        return replace(config, process=replace(config.process, order=1.0))
    if objective in KERNELS:
        noise = ProcessConfig(
            kernel=KERNELS[objective], masking="bernoulli", conditioned=True, eps=1e-3
        )
        return replace(config, model=replace(config.model, time=8), process=noise)
    return replace(
        config,
        model=replace(config.model, anchor_blocks=0 if objective == "ar" else 1),
        anchor=AnchorConfig(rule="corpus", gamma=0.1),
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """The same training on the CPU and on the device; of an AR on the CPU alone."""
    home = tmp_path_factory.mktemp("runs")
    corpus = small_corpus(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        both = [(name, device) for name in OBJECTIVES for device in ("cpu", "mps")]
        for name, device in (("ar", "cpu"), *both):
            with pretending() if device == "mps" else nullcontext():
                made = train(anchored(corpus, name, device), home / f"{name} {device}")
            assert made == 0
    return {run.name: run for run in home.glob("* *")}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_does_without_fp64(runs, objective):
    logs = [read(runs[f"{objective} {device}"] / "metrics.jsonl") for device in ("cpu", "mps")]
    for cpu, gpu in zip(*logs, strict=True):
        for key in cpu.keys() - {"seconds", "tokens_per_s"}:
            # nats: a standard error is a difference of sums, so its own size says little
            assert gpu[key] == pytest.approx(cpu[key], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", registry.names("sampler"))
def test_every_sampler_does_without_fp64(runs, name):
    own = {"posterior": "udlm", "self-correct": "udlm", "analytic": "sedd", "euler": "sedd"}
    own |= {"order-ancestral": "order", "order-hitting": "order"}
    run = runs[f"{own.get(name, 'adlm')} cpu"]
    how = {"n": 1, "steps": 2, "seed": 1, "length": 4, "sampler": name}
    how |= {} if name in own else {"nucleus": 0.9}
    right = api.load(run, "cpu").generate(**how)
    with pretending():
        model = api.load(run, "mps")
        assert model.network.embed.weight.device.type == NAME
        assert model.generate(**how) == right


def test_a_causal_model_does_without_fp64(runs, apple):
    cpu, gpu = (api.load(runs["ar cpu"], device) for device in ("cpu", "mps"))
    how = {"n": 2, "prompt": "the", "seed": 3, "length": 6}
    assert gpu.generate(**how) == cpu.generate(**how)


def test_scores_and_traces_do_without_fp64(runs, apple):
    cpu, gpu = (api.load(runs["adlm cpu"], device) for device in ("cpu", "mps"))
    assert gpu.counts.tokens.dtype == torch.float64
    texts = ["the law of the sea"]
    assert gpu.nll(texts, draws=2) == pytest.approx(cpu.nll(texts, draws=2), rel=1e-5)
    _, trace = gpu.record(template.after("", 8, gpu.vocab), api.settings(n=1, steps=2))
    assert trace.anchors is not None
    x = torch.from_numpy(np.stack([trace.tokens(0)]))
    assert expected(gpu.network, x, gpu.vocab.mask).tokens.dtype == torch.float64


def test_anchors_under_the_lens_do_without_fp64(runs, apple):
    model = api.load(runs["adlm cpu"], "mps")
    rule, table = Anchors(model.config.anchor, model.vocab), model.counts
    x = torch.randint(0, 99, (2, 16))
    batches = [lens.Batch(x, torch.ones_like(x, dtype=torch.bool))]
    look = lens.Lens(batches, rule, table, model.vocab.mask, device=NAME)
    found = look.by_ratio({"adlm": model.network}, (0.5,))
    assert {f.network for f in found} == {"anchor network", "adlm"}


@pytest.mark.parametrize("objective", ["ar", "adlm"])
def test_the_harness_does_without_fp64(runs, apple, objective):
    harness = pytest.importorskip("adlm.eval.harness")
    path = str(runs[f"{objective} cpu"])
    cpu, gpu = (harness.Harness(path, 4, device=device) for device in ("cpu", "mps"))
    assert gpu.pair("a law", " of") == pytest.approx(cpu.pair("a law", " of"), rel=1e-5)


def test_an_apple_gpu_is_picked_after_cuda_and_before_the_cpu(monkeypatch):
    has = {"cuda": False, "mps": True}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has["cuda"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has["mps"])
    assert [devices.pick(n) for n in ("auto", "mps", "cpu")] == ["mps", "mps", "cpu"]
    assert devices.machine("mps").gpu.endswith("(Metal)")
    has["cuda"] = True
    assert devices.pick("auto") == "cuda:0"
    has["cuda"] = has["mps"] = False
    assert devices.pick("auto") == "cpu"
    with pytest.raises(UserError, match="no Apple GPU"):
        devices.pick("mps")
    with pytest.raises(UserError, match="must be auto, cpu, mps, cuda or cuda:N, found 'gpu'"):
        devices.pick("gpu")


def test_several_processes_do_not_share_an_apple_gpu(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="take the device cpu"):
        distributed.start("mps")
