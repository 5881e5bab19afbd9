"""MDLM: the hub's folders (model_type mdlm) and the training checkpoints of its code."""

from __future__ import annotations

from adlm.config import Config, ProcessConfig
from adlm.errors import UserError
from adlm.models.foreign import dit
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register

PREFIX = "backbone."
STATED = {
    "vocab": "vocab_size",
    "width": "hidden_dim",
    "blocks": "n_blocks",
    "heads": "n_heads",
}
TRAINED = {"width": "model.hidden_size", "blocks": "model.n_blocks", "heads": "model.n_heads"}


def process(source: Source) -> ProcessConfig:
    """The published forward process: log-linear, each token by itself, times from 1e-3 on."""
    seen = bool(source.setting("time_conditioning") or source.setting("algo.time_conditioning"))
    return ProcessConfig(masking="bernoulli", times="stratified", eps=1e-3, conditioned=seen)


@register("foreign", "mdlm")
class Mdlm(Format):
    """Masked diffusion, with the mask as the last token (GPT-2) or [MASK] (BERT)."""

    def recognise(self, source: Source) -> bool:
        if not source.training:
            return source.config.get("model_type") == "mdlm"
        kinds = {name.split(".")[0] for name in source.tensors}
        trained = source.setting("algo.name", "mdlm")  # newer code of its authors trains others too
        plain = kinds == {"backbone"} and PREFIX + dit.EMBED in source.tensors
        return plain and trained == "mdlm"

    def config(self, source: Source) -> Config:
        kind = source.setting("parameterization", "subs")
        if kind != "subs":
            raise UserError(f"{source.path} was trained as {kind}: only subs can be imported")
        stated = TRAINED if source.training else STATED
        drop = source.setting("model.dropout" if source.training else "dropout", 0.0)
        length = source.number("model_length", "model.length") or 1024
        model = dit.model_config(source, PREFIX, stated, dropout=float(drop))
        return Config("mdlm", dit.data_config(length), model, process=process(source))

    def names(self, source: Source) -> dict[str, str]:
        return dit.names(source, PREFIX)
