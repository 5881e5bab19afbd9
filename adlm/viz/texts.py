"""Texts as `adlm sample` and `adlm infill` hand them out: printed, as JSON lines, as a replay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adlm.api import Model
from adlm.results import write_text
from adlm.samplers.generate import Samples, SamplingSettings
from adlm.samplers.trace import Trace
from adlm.viz.html import write_replay


@dataclass(frozen=True)
class Outputs:
    """Files beside what is printed.

    Attributes:
        json_out: Also write the texts as JSON lines to this file (--json is short for it).
        trace: Also write a page that replays how the texts were written, such as out.html.
    """

    json_out: str | None = None
    trace: str | None = None

    def tell(self, model: Model, given: np.ndarray, settings: SamplingSettings) -> None:
        """Write the masks of a template, print the texts and their cost, and write the files."""
        seen = None
        if self.trace:
            made, seen = model.record(given, settings)
        else:
            made = model.write(given, settings)
        for number, text in enumerate(made.texts):
            print(f"--- {number}\n{text}")
        print(f"--- {made.cost()}")
        if self.json_out:
            save_json(made, Path(self.json_out))
        if self.trace and seen is not None:
            save_trace(seen, self.trace)


def save_json(made: Samples, out: Path) -> None:
    """Write one line for each text."""
    rows = zip(made.texts, made.ids, made.nfe.tolist(), strict=True)
    same = {"sampler": made.sampler, "seed": made.seed}
    lines = [json.dumps({"text": t, "tokens": k, "nfe": c, **same}) for t, k, c in rows]
    write_text(out, "\n".join(lines) + "\n")


def save_trace(seen: Trace, out: str) -> None:
    """Write the page that replays a trace, and say where."""
    write_replay(seen, out)
    print(f"replay: {out}")
