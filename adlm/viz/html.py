"""One self-contained page that replays a run; it loads nothing from anywhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from adlm.results import write_text
from adlm.samplers.trace import Trace


def replay(trace: Trace) -> str:
    """The page. Token texts enter it as JSON whose every `<` is escaped, and are shown as text."""
    data = trace.to_json().replace("<", "\\u003c")
    page = files("adlm.viz").joinpath("replay.html").read_text(encoding="utf-8")
    return page.replace("TRACE", data, 1)


def write_replay(trace: Trace, out: str | Path) -> None:
    """Write the page, whole or not at all."""
    write_text(Path(out), replay(trace))
