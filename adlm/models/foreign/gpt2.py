"""GPT-2: the hub's folders (model_type gpt2)."""

from __future__ import annotations

import torch
from torch import Tensor

from adlm.config import Config, DataConfig, ModelConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register

EMBED = "wte.weight"
# ours -> theirs
ENDS = {
    "embed.weight": EMBED,
    "head.weight": EMBED,
    "trunk.positions.weight": "wpe.weight",
    "trunk.norm.weight": "ln_f.weight",
    "trunk.norm.bias": "ln_f.bias",
}
NORMS = {"norm1": "ln_1", "norm2": "ln_2"}
# its matrices are stored the other way round
MATRICES = {
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
WHOLE = "transformer."  # before every name, where the language model's head is saved too
BUFFERS = (".attn.bias", ".attn.masked_bias", "lm_head.weight")  # a mask, and the embedding again


@register("foreign", "gpt2")
class Gpt2(Format):
    """A causal trunk with biases and learned positions; the head is the embedding."""

    def recognise(self, source: Source) -> bool:
        return source.config.get("model_type") == "gpt2"

    def config(self, source: Source) -> Config:
        fields = ("n_embd", "n_head", "n_layer", "n_positions")
        found = {name: source.number(name) for name in fields}
        if None in found.values():
            lacking = next(name for name, value in found.items() if value is None)
            raise UserError(f"{source.path / 'config.json'} is not GPT-2's: it lacks {lacking}")
        width, heads, blocks, length = (int(n or 0) for n in found.values())
        inner = source.number("n_inner") or 4 * width
        usual = source.setting("activation_function", "gelu_new") == "gelu_new"
        if not usual or inner % width or not source.setting("tie_word_embeddings", True):
            raise UserError(f"{source.path} is a variant of GPT-2 that this trunk cannot be")
        model = ModelConfig(
            width=width,
            blocks=blocks,
            heads=heads,
            mlp=inner // width,
            tied=True,
            bias=True,
            positions="learned",
        )
        return Config(objective="ar", model=model, data=DataConfig(tokenizer="gpt2", length=length))

    def serves(self, rows: int, vocab: Vocab) -> bool:
        return True  # the mask is new; some files have rows that only fill up

    def names(self, source: Source) -> dict[str, str]:
        found = dict(ENDS)
        for n in range(source.number("n_layer") or 0):
            for ours, theirs in (NORMS | MATRICES).items():
                for part in ("weight", "bias"):
                    found[f"trunk.blocks.{n}.{ours}.{part}"] = f"h.{n}.{theirs}.{part}"
        before = WHOLE if WHOLE + EMBED in source.tensors else ""
        return {ours: before + theirs for ours, theirs in found.items()}

    def tensors(self, source: Source) -> dict[str, Tensor]:
        kept = {k: t for k, t in source.tensors.items() if not k.endswith(BUFFERS)}
        found = super().tensors(Source(source.path, source.config, kept))
        turned = tuple(f".{name}.weight" for name in MATRICES)
        made = {k: t.T.contiguous() if k.endswith(turned) else t for k, t in found.items()}
        return {**made, "head.bias": torch.zeros(len(found["embed.weight"]))}
