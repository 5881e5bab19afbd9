"""In a step the host waits for the device once: to know the positions that are asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from adlm.samplers.base import make_policy
from adlm.samplers.cache import CacheSettings
from tests.samplers.test_cache import LENGTH, SCHEDULE, canvas, network

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero")


class Waits(TorchDispatchMode):
    """Count what makes a host wait: numbers and sizes that only the device knows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and isinstance(args[1], list | tuple)
        by_mask = by_mask and any(isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1])
        if name in WAITS or by_mask:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["none", "delayed"])
@pytest.mark.parametrize("sampler", ["ancestral", "first-hitting", "remdm-conf", "confidence"])
def test_a_step_asks_the_device_for_no_number_but_the_positions(sampler, kind, monkeypatch):
    made = canvas(network(), cache=CacheSettings(kind, 4))
    policy = make_policy(sampler, SCHEDULE)
    copies: list[int] = []
    fetch = Tensor.cpu
    monkeypatch.setattr(Tensor, "cpu", lambda x: copies.append(1) or fetch(x))
    for step in (LENGTH, LENGTH - 1, LENGTH - 2):
        copies.clear()
        with Waits() as waits:
            made.next_step()
            made.tell(policy.visible(made, step / LENGTH, (step - 1) / LENGTH))
            policy.step(made, step / LENGTH, (step - 1) / LENGTH)
        assert waits.found == []
        assert len(copies) == 1


def test_what_waits_is_seen():
    with Waits() as waits:
        z = torch.ones(2, 2)
        bool(z.any()), z[z > 0], z.nonzero()
    assert len(waits.found) == 3
