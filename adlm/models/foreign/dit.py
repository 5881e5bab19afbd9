"""The published DiT of MDLM, BD3-LM, ADLM, SEDD and GIDD: our trunk under other names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adlm.config import DataConfig, ModelConfig
from adlm.errors import UserError
from adlm.models.foreign.base import take
from adlm.models.foreign.source import Source

# ours -> theirs
TRUNK = {
    "time.inner.weight": "sigma_map.mlp.0.weight",
    "time.inner.bias": "sigma_map.mlp.0.bias",
    "time.outer.weight": "sigma_map.mlp.2.weight",
    "time.outer.bias": "sigma_map.mlp.2.bias",
    "norm.weight": "output_layer.norm_final.weight",
    "modulation.weight": "output_layer.adaLN_modulation.weight",
    "modulation.bias": "output_layer.adaLN_modulation.bias",
}
BLOCK = {
    "norm1.weight": "norm1.weight",
    "attention.qkv.weight": "attn_qkv.weight",
    "attention.out.weight": "attn_out.weight",
    "norm2.weight": "norm2.weight",
    "up.weight": "mlp.0.weight",
    "up.bias": "mlp.0.bias",
    "down.weight": "mlp.2.weight",
    "down.bias": "mlp.2.bias",
    "modulation.weight": "adaLN_modulation.weight",
    "modulation.bias": "adaLN_modulation.bias",
}
EMBED = "vocab_embed.embedding"
HEAD = {
    "weight": "output_layer.linear.weight",
    "bias": "output_layer.linear.bias",
}


@dataclass(frozen=True)
class Sizes:
    """What the tensors themselves say of a trunk."""

    vocab: int
    width: int
    blocks: int
    time: int
    mlp: int


def measure(source: Source, prefix: str = "") -> Sizes:
    """Return the sizes of the trunk whose tensors begin with `prefix`."""
    vocab, width = take(source, prefix + HEAD["weight"]).shape
    stem = f"{prefix}blocks."
    numbers = {k[len(stem) :].split(".")[0] for k in source.tensors if k.startswith(stem)}
    if numbers != {str(n) for n in range(len(numbers))}:
        raise UserError(f"{source.file}: the blocks {stem}* are not numbered 0 to {len(numbers)}")
    time = take(source, prefix + TRUNK["time.outer.weight"]).shape[0]
    inner = take(source, f"{stem}0.mlp.0.weight").shape[0]
    return Sizes(vocab, width, len(numbers), time, max(1, inner // width))


def trunk_names(theirs: str, ours: str, blocks: int) -> dict[str, str]:
    """Return our name of each of a trunk's tensors -> theirs."""
    names = {ours + a: theirs + b for a, b in TRUNK.items()}
    for n in range(blocks):
        names |= {f"{ours}blocks.{n}.{a}": f"{theirs}blocks.{n}.{b}" for a, b in BLOCK.items()}
    return names


def names(source: Source, prefix: str = "") -> dict[str, str]:
    """Return our name of each tensor of a plain DiT -> theirs."""
    found = trunk_names(prefix, "trunk.", measure(source, prefix).blocks)
    found |= {f"head.{a}": prefix + b for a, b in HEAD.items()}
    return {**found, "embed.weight": prefix + EMBED}


def model_config(source: Source, prefix: str, stated: dict[str, str], **more: Any) -> ModelConfig:
    """The network; `stated` names the settings that must agree with the tensors, and the heads.

    cond_dim is not among them: published files have it wrong, so the tensor decides.
    """
    sizes = measure(source, prefix)
    for field, name in stated.items():
        found, right = source.number(name), getattr(sizes, field, None)
        if right is not None and found is not None and found != right:
            raise UserError(
                f"{source.path}: {name} is {found}, but the tensors are those of {right}"
            )
    heads = source.number(stated["heads"])
    if heads is None:
        if sizes.width % 64:
            raise UserError(
                f"{source.path} does not say how many attention heads it has, and its width "
                f"{sizes.width} is not a multiple of 64"
            )
        heads = sizes.width // 64
    shape = {"width": sizes.width, "blocks": sizes.blocks, "time": sizes.time, "mlp": sizes.mlp}
    return ModelConfig(**{**shape, "heads": heads, **more})


def data_config(length: int) -> DataConfig:
    """Rows as the network was trained on; the tokenizer is chosen later."""
    return DataConfig(name="openwebtext", tokenizer="gpt2", length=length, compat=True)
