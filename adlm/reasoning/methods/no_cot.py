"""No chain of thought: question, answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.reasoning.methods.base import ALL, Curriculum, Method, Stage
from adlm.registry import register


@register("method", "no-cot")
@dataclass(frozen=True)
class NoCoT(Method):
    """The answer alone is learnt."""

    name: ClassVar[str] = "no-cot"

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        return [Stage(curriculum.epochs, removed=ALL)]
