"""Implicit chain of thought: the steps are taken away one by one, and nothing stands for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.reasoning.methods.base import Curriculum, Method, Stage
from adlm.registry import register


@register("method", "icot")
@dataclass(frozen=True)
class ICoT(Method):
    """Step-wise internalisation: stage k lacks the first k steps, the last one all."""

    name: ClassVar[str] = "icot"

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        each = zip(curriculum.lengths(), curriculum.fewer_steps(), strict=True)
        return [Stage(epochs, removed=gone) for epochs, gone in each]
