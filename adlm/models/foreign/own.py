"""Our own folders: what `adlm export` writes, also after transformers has saved it again."""

from __future__ import annotations

from torch import Tensor

from adlm.config import Config, from_dict
from adlm.models import checkpoint
from adlm.models.foreign.base import Format, take
from adlm.models.foreign.source import Source
from adlm.models.twins import with_twins
from adlm.registry import register


@register("foreign", "own")
class Own(Format):
    """The names are ours; a tied matrix may be there once."""

    def recognise(self, source: Source) -> bool:
        manifest = (source.path / checkpoint.MANIFEST).is_file()
        return manifest or source.config.get("model_type") == "adlm"

    def config(self, source: Source) -> Config:
        if (source.path / checkpoint.MANIFEST).is_file():
            return checkpoint.load(source.path).config
        return from_dict(source.config.get("adlm"), where=source.path / "config.json")

    def names(self, source: Source) -> dict[str, str]:
        return {name: name for name in source.tensors}

    def tensors(self, source: Source) -> dict[str, Tensor]:
        model = self.config(source).model
        found = {k: t for k, t in source.tensors.items() if not k.startswith(checkpoint.COUNTS)}
        take(source, "embed.weight")
        return with_twins(found, model)
