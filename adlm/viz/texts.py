"""Texts as `adlm sample` and `adlm infill` hand them out: printed, as JSON lines, as a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adlm.api import Model
from adlm.results import write_text, write_texts
from adlm.samplers.generate import Samples
from adlm.samplers.settings import SamplingSettings
from adlm.values import to_text
from adlm.viz.html import replay
from adlm.world import World


@dataclass(frozen=True)
class Outputs:
    """Files beside what is printed.

    Attributes:
        json_out: Also write the texts as JSON lines to this file (--json is short for it).
        trace: Also write a page that replays how the texts were written, such as out.html.
    """

    json_out: str | None = None
    trace: str | None = None

    def tell(
        self,
        model: Model,
        given: np.ndarray,
        settings: SamplingSettings,
        world: World = World(),
    ) -> None:
        """Write the masks of a template, print the texts and their cost, and write the files."""
        seen = None
        if self.trace:
            made, seen = model.record(given, settings)
        else:
            made = model.write(given, settings, world=world)
        if not world.main:
            return
        for number, text in enumerate(made.texts):
            print(f"--- {number}\n{text}")
        print(f"--- {made.cost()}")
        files = {Path(self.json_out): json_lines(made)} if self.json_out else {}
        if self.trace and seen is not None:
            files[Path(self.trace)] = replay(seen)
        write_texts(files)
        if self.trace:
            print(f"replay: {self.trace}")

    def answer(
        self,
        model: Model,
        prompts: Sequence[str],
        given: Sequence[np.ndarray],
        settings: SamplingSettings,
        world: World = World(),
    ) -> None:
        """Write the masks of several templates, print the answers to their prompts, save them."""
        made = model.write(given, settings, world=world)
        if not world.main:
            return
        told = []
        for number, (tokens, text) in enumerate(zip(made.ids, made.texts, strict=True)):
            at, row = divmod(number, settings.n)
            asked = int((given[at] != model.vocab.mask).sum())
            answer = model.vocab.decode(tokens[asked:])
            print(f"--- {at}.{row} {prompts[at].rstrip()}\n{answer}")
            told.append({"prompt": prompts[at], "answer": answer, "text": text, "row": row})
        print(f"--- {made.cost()}")
        if self.json_out:
            write_text(Path(self.json_out), json_lines(made, told))


def json_lines(made: Samples, told: Sequence[dict[str, Any]] | None = None) -> str:
    """One line for each text: what is told of it, its tokens and how it was written."""
    told = told or [{"text": text} for text in made.texts]
    rows = zip(told, made.ids, made.nfe.tolist(), strict=True)
    same = {"sampler": made.sampler, "seed": made.seed}
    lines = [to_text({**t, "tokens": k, "nfe": c, **same}) for t, k, c in rows]
    return "\n".join(lines) + "\n"
