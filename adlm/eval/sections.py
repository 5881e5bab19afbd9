"""Sections of the results that have no class yet; a class registered as "result" comes first.

To be deleted with the two lines of `report.py` that name it, once every command has its class.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adlm.errors import UserError
from adlm.viz.page import Section


def solved(result: Any, path: Path) -> Section:
    low, high = (100 * end for end in result["interval"])
    rows = [
        ["right", f"{result['right']} of {result['items']}"],
        ["accuracy, per cent", f"{100 * result['accuracy']:.1f} ({low:.1f} to {high:.1f})"],
        ["tokens generated, slots", f"{result['tokens']:.1f}, {result['slots']:.1f}"],
    ]
    for key, what in (("sound_traces", "sound traces"), ("anchor_recall", "anchors predicted")):
        if result[key] is not None:
            rows.append([what, f"{result[key]:.1%}"])
    settings = result["plan"]["settings"]
    notes = [f"Trained on {settings['data']} items, scored on {Path(result['source']).name}."]
    title = f"Reasoning: {result['method']} on {result['task']} ({result['split']})"
    return Section(title, ["", ""], rows, notes)


SECTIONS: dict[str, Callable[[Any, Path], Section]] = {
    "reason eval": solved,
}


def untyped(kind: str, result: Any, path: Path) -> Section:
    """The section of such a result."""
    try:
        return SECTIONS[kind](result, path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is not a result of '{kind}': {error!r}") from None
