"""Small networks of the published projects, with what the published code computes for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from adlm.config import Config, ModelConfig
from adlm.data.vocab import Vocab, byte_vocab
from adlm.models import hub
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.models.foreign.base import find_format
from adlm.models.foreign.source import Source, open_source
from adlm.nn.transformer import Trunk
from tests.conftest import SHARED

GOLDEN = SHARED.parent / "golden"
here = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no published numbers at {GOLDEN}")


@dataclass(frozen=True)
class Given:
    """A published network in our trunk."""

    config: Config
    model: Denoiser


def given(path: str, raw: bool = False, exact: bool = True) -> Given:
    """The network of a file; `exact` in fp64 with the published angles, which were fp32."""
    source = open_source(str(GOLDEN / path), raw)
    kind = find_format(source)
    config, tensors = kind.config(source), kind.tensors(source)
    model = bare(config.model, len(tensors["embed.weight"]), config.data.length)
    hub.fill(model, tensors, source.file, kind.names(source))
    if exact:
        turn(model.double(), source)
    return Given(config, model.eval())


def bare(shape: ModelConfig, size: int, length: int) -> Denoiser:
    kind = Anchored if shape.anchor_blocks else Denoiser
    return kind(size, shape, False, length)


def turn(model: Denoiser, source: Source) -> None:
    """Take the angles of the file's own buffers; the trunk's, made here, differ by rounding."""
    for trunk in (m for m in model.modules() if isinstance(m, Trunk)):
        stored = next((t for k, t in source.tensors.items() if k.endswith("inv_freq")), None)
        if stored is not None:
            places = torch.arange(2 * len(trunk.cos)).double()  # room for [z ; x]
            phase = places[:, None] * stored.double()
            cos, sin = phase.cos(), phase.sin()
        else:  # (1, L, 3, 1, d) with every angle twice
            cos, sin = (
                source.tensors[f"rotary_emb.{n}_cached"][0, :, 0, 0].double() for n in NAMES
            )
            cos, sin = cos[:, : cos.shape[1] // 2], sin[:, : sin.shape[1] // 2]
        assert (trunk.cos - cos[: len(trunk.cos)]).abs().max() < 1e-5
        trunk.cos, trunk.sin = cos, sin


NAMES = ("cos", "sin")


def expected(folder: str, *more: str) -> dict[str, Tensor]:
    names = ("expected.safetensors", *more)
    return {k: t for name in names for k, t in load_file(GOLDEN / folder / name).items()}


def words(mask: int, eos: int) -> Vocab:
    """A vocabulary of which only the special numbers count."""
    return Vocab(byte_vocab().tokenizer, mask, eos, eos, eos)


def folder_of(name: str, home: Path) -> Path:
    """A copy of a published folder that may be changed."""
    copy = home / name
    copy.mkdir()
    for file in ("config.json", "model.safetensors"):
        (copy / file).write_bytes((GOLDEN / name / file).read_bytes())
    return copy
