"""BD3-LM: the hub's folders (model_type bd3lm) and the training checkpoints of its code."""

from __future__ import annotations

from adlm.config import Config, ProcessConfig
from adlm.errors import UserError
from adlm.models.foreign import dit, mdlm
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register


def process(source: Source) -> ProcessConfig:
    """The forward process inside a block: each token is hidden with probability t exactly."""
    seen = bool(source.setting("time_conditioning") or source.setting("algo.time_conditioning"))
    block = source.number("block_size")
    if block is None:
        raise UserError(f"{source.path} does not say how long its blocks are (block_size)")
    return ProcessConfig(masking="bernoulli", times="stratified", conditioned=seen, block=block)


@register("foreign", "bd3lm")
class Bd3lm(Format):
    """Block diffusion: MDLM's tensors, two buffers of its clipped times, and a block size."""

    def recognise(self, source: Source) -> bool:
        if not source.training:
            return source.config.get("model_type") == "bd3lm"
        return {f"sampling_eps_{end}" for end in ("min", "max")} <= source.tensors.keys()

    def config(self, source: Source) -> Config:
        causal = source.setting("causal") or source.setting("model.causal_attention")
        if causal or not source.setting("adaln", True):
            raise UserError(f"{source.path} is a causal BD3-LM or one without adaLN: not a DiT")
        stated = mdlm.TRAINED if source.training else mdlm.STATED
        drop = source.setting("dropout", source.setting("model.dropout", 0.0))
        length = source.number("model_length", "model.length") or 1024
        model = dit.model_config(source, mdlm.PREFIX, stated, dropout=float(drop))
        return Config("bd3lm", dit.data_config(length), model, process=process(source))

    def names(self, source: Source) -> dict[str, str]:
        return dit.names(source, mdlm.PREFIX)
