"""ADLM: the training checkpoints of the paper's code, older ones too."""

from __future__ import annotations

from adlm.config import AnchorConfig, Config
from adlm.errors import UserError
from adlm.models.foreign import dit, mdlm
from adlm.models.foreign.base import Format
from adlm.models.foreign.source import Source
from adlm.registry import register

ANCHOR = "backbone."
DENOISER = ("denoiser.", "replica.")  # the second is the older name
BRIDGE = "vocab_embed.0."  # Linear(V -> D) in place of the denoiser's embedding


def denoiser(source: Source) -> str:
    """Return the prefix that the denoiser's tensors have."""
    return next((p for p in DENOISER if p + BRIDGE + "weight" in source.tensors), DENOISER[0])


@register("foreign", "adlm")
class Adlm(Format):
    """An anchor network (`backbone`) whose logits a second network (`denoiser`) reads."""

    def recognise(self, source: Source) -> bool:
        return source.training and denoiser(source) + BRIDGE + "weight" in source.tensors

    def config(self, source: Source) -> Config:
        kind = source.setting("parameterization", "subs")
        if kind != "subs":
            raise UserError(f"{source.path} was trained as {kind}: only subs can be imported")
        first, second = (dit.measure(source, p) for p in (ANCHOR, denoiser(source)))
        drop = float(source.setting("model.dropout", 0.0))
        whole = dit.model_config(
            source, ANCHOR, mdlm.TRAINED, dropout=drop,
            anchor_blocks=first.blocks, blocks=second.blocks,
        )  # fmt: skip
        length = source.number("model.length") or 1024
        anchor = AnchorConfig(gamma=3e-3, tau=5, warmup=0.003, positions="all", compat=True)
        process = mdlm.process(source)
        return Config("adlm", dit.data_config(length), whole, process=process, anchor=anchor)

    def names(self, source: Source) -> dict[str, str]:
        second = denoiser(source)
        found = dit.trunk_names(ANCHOR, "anchor_trunk.", dit.measure(source, ANCHOR).blocks)
        found |= dit.trunk_names(second, "trunk.", dit.measure(source, second).blocks)
        for part, theirs in dit.HEAD.items():
            found |= {f"anchor_head.{part}": ANCHOR + theirs, f"head.{part}": second + theirs}
            found |= {f"bridge.project.{part}": second + BRIDGE + part}
        return {**found, "embed.weight": ANCHOR + dit.EMBED}
