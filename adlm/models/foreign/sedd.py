"""SEDD: the hub's folders (nested settings with `graph` and `noise`)."""

from __future__ import annotations

from adlm.config import Config, ModelConfig, ProcessConfig
from adlm.errors import UserError
from adlm.models.foreign import dit
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register

STATED = {"width": "model.hidden_size", "blocks": "model.n_blocks", "heads": "model.n_heads"}
PROCESS = ProcessConfig(masking="bernoulli", eps=1e-3, conditioned=True)


@register("foreign", "sedd")
class Sedd(Format):
    """Score entropy over the absorbing graph; the network always sees sigma."""

    def recognise(self, source: Source) -> bool:
        nested = all(isinstance(source.config.get(k), dict) for k in ("graph", "noise", "model"))
        return nested and dit.EMBED in source.tensors

    def config(self, source: Source) -> Config:
        graph, noise = source.setting("graph.type"), source.setting("noise.type")
        if (graph, noise) != ("absorb", "loglinear"):
            raise UserError(
                f"{source.path} is SEDD with the graph {graph} and {noise} noise: only absorb "
                "with loglinear can be imported"
            )
        length = source.number("model.length") or 1024
        return Config("sedd", dit.data_config(length), self.model(source), process=PROCESS)

    def model(self, source: Source) -> ModelConfig:
        """Return the network, whatever the graph."""
        drop = float(source.setting("model.dropout", 0.0))
        return dit.model_config(source, "", STATED, dropout=drop)

    def names(self, source: Source) -> dict[str, str]:
        return dit.names(source)
