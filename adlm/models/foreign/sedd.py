"""SEDD: the hub's folders (nested settings with `graph` and `noise`), one format for each graph."""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config, ProcessConfig
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.foreign import dit
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.process.schedule import Geometric
from adlm.registry import register

STATED = {"width": "model.hidden_size", "blocks": "model.n_blocks", "heads": "model.n_heads"}
MASKS = ProcessConfig(masking="bernoulli", eps=1e-3, conditioned=True)


@register("foreign", "sedd")
class Sedd(Format):
    """Score entropy over the absorbing graph; the network always sees sigma."""

    def recognise(self, source: Source) -> bool:
        nested = all(isinstance(source.config.get(k), dict) for k in ("graph", "noise", "model"))
        uniform = source.setting("graph.type") == "uniform"
        return nested and dit.EMBED in source.tensors and uniform == isinstance(self, SeddUniform)

    def config(self, source: Source) -> Config:
        process = self.process(source)
        length = source.number("model.length") or 1024
        drop = float(source.setting("model.dropout", 0.0))
        model = dit.model_config(source, "", STATED, dropout=drop)
        return Config("sedd", dit.data_config(length), model, process=process)

    def process(self, source: Source) -> ProcessConfig:
        """Return the noise: masks, log-linear."""
        graph, noise = source.setting("graph.type"), source.setting("noise.type")
        if (graph, noise) != ("absorb", "loglinear"):
            raise refused(source, graph, noise)
        return MASKS

    def names(self, source: Source) -> dict[str, str]:
        return dit.names(source)


@register("foreign", "sedd-uniform")
class SeddUniform(Sedd):
    """Score entropy over the uniform graph: it has no mask, so that ours is one row more."""

    def process(self, source: Source) -> ProcessConfig:
        """Return the noise: any real token, geometric."""
        noise = source.setting("noise.type")
        if noise != "geometric":
            raise refused(source, "uniform", noise)
        ends = [source.setting(f"noise.sigma_{end}") for end in ("min", "max")]
        usual = Geometric()
        least, most = (
            float(found) if type(found) in (int, float) else own
            for found, own in zip(ends, (usual.least, usual.most), strict=True)
        )
        Geometric(least, most)  # are they in range?
        schedule = f"geometric:{least:g}:{most:g}"
        return replace(MASKS, kernel="uniform", schedule=schedule, eps=0.0)

    def serves(self, rows: int, vocab: Vocab) -> bool:
        return rows == vocab.mask == vocab.size - 1


def refused(source: Source, graph: object, noise: object) -> UserError:
    return UserError(
        f"{source.path} is SEDD with the graph {graph} and {noise} noise: only absorb with "
        "loglinear and uniform with geometric can be imported"
    )
