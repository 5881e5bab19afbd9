"""Chain of thought: question, steps, answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.reasoning.methods.base import Curriculum, Method, Stage
from adlm.registry import register


@register("method", "cot")
@dataclass(frozen=True)
class CoT(Method):
    """All steps and the answer are learnt."""

    name: ClassVar[str] = "cot"

    def stages(self, curriculum: Curriculum) -> list[Stage]:
        return [Stage(curriculum.epochs)]
