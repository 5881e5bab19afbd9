"""Implicit chain of thought: the steps are taken away one by one, and nothing stands for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adlm.reasoning.methods.base import Method, Schedule, Stage, curriculum
from adlm.registry import register


@register("method", "icot")
@dataclass(frozen=True)
class ICoT(Method):
    """Step-wise internalisation: stage k lacks the first k steps, the last one all."""

    name: ClassVar[str] = "icot"

    def stages(self, schedule: Schedule) -> list[Stage]:
        return curriculum(schedule, slots=0, remove=True, all_at_last=True)
