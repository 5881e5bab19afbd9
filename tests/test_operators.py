"""Every operator of training, scoring and sampling has a kernel on each device, and a fake one.

No GPU is needed: torch ships the table from which its dispatcher is made, which says for each
operator on which devices it has a kernel.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torchgen
from torch._subclasses.fake_utils import CrossRefFakeMode
from torch.utils._python_dispatch import TorchDispatchMode

from adlm import api
from adlm.config import AnchorConfig, ProcessConfig
from adlm.train.engine import Engine
from adlm.train.lm import LanguageModelling
from adlm.train.run import train
from adlm.train.workload import Moment
from adlm.world import World
from tests.conftest import make_config

yaml = pytest.importorskip("yaml")
TABLE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
# kernels that serve every device, or are made of operators that have their own
EVERYWHERE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
# where a device has other operators instead: SDPA and the fused update pick by device
OTHERS = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_fused_attention")


class Seen(TorchDispatchMode):
    """Collects the operators that are called inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "aten":
            self.names.add(func._schema.name.removeprefix("aten::") + "." + func._overloadname)
        return func(*args, **(kwargs or {}))


def config_of(corpus: Path, objective: str) -> Any:
    config = make_config(corpus, objective, steps=2)
    if objective in ("udlm", "sedd"):
        kernel = "uniform" if objective == "udlm" else "mask"
        noise = ProcessConfig(kernel=kernel, masking="bernoulli", conditioned=True, eps=1e-3)
        return replace(config, model=replace(config.model, time=8), process=noise)
    blocks = 1 if objective in ("adlm", "a2r") else 0
    return replace(
        config,
        model=replace(config.model, anchor_blocks=blocks, dropout=0.1),
        anchor=AnchorConfig(rule="corpus", gamma=0.1, warmup=0.0),
    )


def whole_path(config: Any, run: Path) -> None:
    """A training step with Muon, AdamW and averaged weights, a validation, and texts."""
    engine = Engine(LanguageModelling(config, "cpu"), run, World())
    engine.advance()
    with engine.ema.swapped():
        engine.workload.validate(Moment(1, 1, 1.0, 1.0, "fp32"), World())
    model = api.load(run, "cpu")
    model.generate(n=2, steps=2, seed=1, length=8)


@pytest.fixture(scope="module")
def kernels() -> dict[str, set[str]]:
    """Operator -> the keys under which it has a kernel; what it is made from stands for its own."""
    found: dict[str, set[str]] = {}
    for entry in yaml.load(TABLE.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        name = entry["func"].split("(")[0]
        keys = {k.strip() for line in entry.get("dispatch", {}) for k in line.split(",")}
        if "ufunc_inner_loop" in entry:
            keys |= {"CPU", "CUDA"}
        if "structured_delegate" in entry:
            keys.add(f"-> {entry['structured_delegate']}")
        found[name] = keys or {EVERYWHERE[0]}
    for keys in found.values():
        for key in [k for k in keys if k.startswith("-> ")]:
            keys |= found[key.removeprefix("-> ")]
    return found


def lacking(name: str, device: str, kernels: dict[str, set[str]]) -> bool:
    """Has an operator no kernel on a device?"""
    keys = kernels.get(name.removesuffix(".").removesuffix(".default"), {EVERYWHERE[0]})
    return not any(k.startswith(EVERYWHERE) or k == device for k in keys)


@pytest.mark.parametrize("objective", ["ar", "adlm", "udlm", "sedd"])
def test_every_operator_has_a_kernel_on_gpus(objective, kernels, text_file, tmp_path):
    config = config_of(text_file, objective)
    train(config, tmp_path / "run")
    with Seen() as seen:
        whole_path(config, tmp_path / "run")
    assert len(seen.names) > 50
    used = {n for n in seen.names if not n.startswith(OTHERS)}
    for device in ("CUDA", "MPS"):
        assert {n for n in used if lacking(n, device, kernels)} == set(), device


def test_an_operator_without_a_kernel_is_found(kernels):
    assert lacking("_scaled_dot_product_flash_attention_for_cpu.default", "CUDA", kernels)
    assert not lacking("mm.default", "MPS", kernels)


def test_every_operator_of_a_step_has_a_fake_kernel(text_file, tmp_path):
    """The fake tensors of torch.compile and of memory estimates must know each operator."""
    config = config_of(text_file, "adlm")
    engine = Engine(LanguageModelling(config, "cpu"), tmp_path, World())
    with CrossRefFakeMode(check_strides=False, check_aliasing=False):
        engine.advance()
    assert engine.step == 1
    assert torch.isfinite(engine.model.embed.weight).all()
