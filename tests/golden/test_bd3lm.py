"""Numbers that the published BD3-LM code computes for a small random network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from adlm.nn.context import Context
from safetensors.torch import load_file
from torch import Tensor

from adlm.models.denoiser import Denoiser
from adlm.nn.blocks import BlockLayout
from adlm.nn.config import TrunkConfig

HOME = Path(__file__).parents[3] / "shared" / "golden" / "bd3lm"
pytestmark = pytest.mark.skipif(not HOME.is_dir(), reason="no golden numbers")
MASK = 99
NAMES = {  # theirs -> ours
    "vocab_embed.embedding": "embed.weight",
    "sigma_map.mlp.0": "trunk.time.inner",
    "sigma_map.mlp.2": "trunk.time.outer",
    "output_layer.norm_final": "trunk.norm",
    "output_layer.adaLN_modulation": "trunk.modulation",
    "output_layer.linear": "head",
    "blocks.": "trunk.blocks.",
    "attn_qkv": "attention.qkv",
    "attn_out": "attention.out",
    "mlp.0": "up",
    "mlp.2": "down",
    "adaLN_modulation": "modulation",
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Tensor]:
    return load_file(HOME / "expected.safetensors")


@pytest.fixture(scope="module")
def model() -> Denoiser:
    """The published weights in our trunk, in fp64."""
    size = json.loads((HOME / "README.json").read_text())["sizes"]
    shape = TrunkConfig(size["d"], size["blocks"], size["heads"], time=size["cond"])
    made = Denoiser(size["V"], shape, causal=False, max_length=size["L"])
    ours = {}
    for name, tensor in load_file(HOME / "model.safetensors").items():
        if name.startswith("backbone.") and "rotary" not in name:
            name = name.removeprefix("backbone.")
            for theirs, here in NAMES.items():
                name = name.replace(theirs, here)
            ours[name] = tensor
    made.load_state_dict(ours)
    return made.double().eval()


def both_halves(model: Denoiser, z: Tensor, x: Tensor, block: int) -> Tensor:
    """Logits of the noisy half of [z ; x]."""
    layout = BlockLayout(block=block, paired=True)
    return model.logits(torch.cat((z, x), dim=1), Context(layout))[:, : z.shape[1]]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_logits_of_both_halves(model, expected, block):
    found = both_halves(model, expected[f"z_block{block}"], expected["x"], block)
    torch.testing.assert_close(found, expected[f"logits_block{block}"], atol=1e-6, rtol=0)
