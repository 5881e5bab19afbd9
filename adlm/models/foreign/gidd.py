"""GIDD: the hub's folders (model_type dit, with p_uniform)."""

from __future__ import annotations

from adlm.config import Config, ProcessConfig
from adlm.models.foreign import dit
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register

STATED = {
    "vocab": "vocab_size",
    "width": "hidden_size",
    "blocks": "num_hidden_layers",
    "heads": "num_attention_heads",
}


def process(source: Source) -> ProcessConfig:
    """Return the forward process: times stay t_eps from either end."""
    eps, share = float(source.setting("t_eps", 1e-4)), float(source.setting("p_uniform", 0.0))
    kernel = f"mixture:{share:g}"
    return ProcessConfig(
        kernel=kernel, masking="bernoulli", weight="dynamic", eps=eps, conditioned=True
    )


@register("foreign", "gidd")
class Gidd(Format):
    """Mask and uniform noise together; the network sees the time t itself."""

    def recognise(self, source: Source) -> bool:
        return source.config.get("model_type") == "dit" and "p_uniform" in source.config

    def config(self, source: Source) -> Config:
        length = source.number("max_seq_len") or 1024
        model = dit.model_config(source, "", STATED)
        return Config("gidd", dit.data_config(length), model, process=process(source))

    def names(self, source: Source) -> dict[str, str]:
        return dit.names(source)
