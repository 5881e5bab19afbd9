"""A compiled network writes what the plain one writes, and is compiled once for each shape."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from adlm.samplers.base import Canvas, run
from adlm.samplers.cache import CacheSettings
from tests.samplers.test_cache import LENGTH, SHAPE, canvas, network, policy


def written(compiled: str, kind: str, anchors: int) -> tuple[Canvas, int]:
    """A canvas, and how many graphs its trunks were compiled to."""
    model, graphs = network(replace(SHAPE, anchor_blocks=anchors)), []
    if compiled:
        inner = torch._dynamo.lookup_backend(compiled)

        def backend(graph, inputs):  # type: ignore[no-untyped-def]
            graphs.append(graph)
            return inner(graph, inputs)

        for trunk in {model.trunk, getattr(model, "anchor_trunk", model.trunk)}:
            trunk.compile(backend=backend, fullgraph=True, dynamic=False)
    made = canvas(model, cache=CacheSettings(kind, 100))
    run(made, policy("first-hitting", kind), LENGTH)
    return made, len(graphs)


@pytest.mark.parametrize("anchors", [0, 1], ids=["plain", "anchored"])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_pass_has_one_shape_and_writes_what_the_plain_one_writes(backend, anchors):
    torch._dynamo.reset()
    eager, _ = written("", "none", anchors)
    compiled, graphs = written(backend, "none", anchors)
    assert torch.equal(compiled.z, eager.z)
    torch.testing.assert_close(compiled.probability, eager.probability, atol=1e-9, rtol=0)
    assert graphs == 1 + anchors  # one a trunk: no step is compiled anew
    assert eager.nfe.max() > 3
