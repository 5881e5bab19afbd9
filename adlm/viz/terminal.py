"""A trace played in the terminal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Group
from rich.live import Live
from rich.text import Text
from torch import Tensor

from adlm.config import check
from adlm.data.vocab import Vocab
from adlm.progress import Screen
from adlm.samplers.trace import Trace

ANCHOR = "bold black on yellow"
NEW = "underline"
GIVEN = "bold"
HOLE, BACK = "dim", "red"
KEYS = "space pauses, ← → step, + - speed, q leaves"


def frame(trace: Trace, row: int, step: int) -> Text:
    """Return the row after a step: anchors coloured, what this step wrote underlined."""
    z = trace.tokens(row, step)
    final = trace.tokens(row)
    fresh = {e.position: e for e in trace.events[row] if e.step == step}
    out = Text()
    pieces = trace.vocab.pieces(z.tolist())
    for position, token in enumerate(z.tolist()):
        if token == trace.vocab.mask:
            out.append("▁", BACK if position in fresh else HOLE)
            continue
        anchor = trace.anchors is not None and trace.anchors[row, position]
        styles = [ANCHOR] if anchor and token == final[position] else []
        styles += [NEW] if position in fresh else []
        styles += [GIVEN] if trace.template[position] != trace.vocab.mask else []
        out.append(pieces[position], " ".join(styles) or None)
    return out


def marked(x: Tensor, is_anchor: Tensor, vocab: Vocab) -> Text:
    """Show tokens as text, anchors coloured."""
    out = Text()
    for piece, anchor in zip(vocab.pieces(x.tolist()), is_anchor.tolist(), strict=True):
        out.append(piece, ANCHOR if anchor else None)
    return out


def legend(trace: Trace) -> str:
    """Say what is coloured, if anything is."""
    return f"yellow: {trace.rule}" if trace.anchors is not None and trace.rule else ""


def play(trace: Trace, speed: float = 10.0, row: int = 0) -> None:
    """Play it: with keys in a terminal, frame after frame into a file or pipe."""
    check(speed > 0, "--speed", speed, "above 0")
    screen = Screen(highlight=False)
    asked = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if not (asked and screen.is_terminal and find_spec("termios")):  # Windows has no termios
        for step in range(trace.steps + 1):
            if step in (0, trace.steps) or any(e.step == step for e in trace.events[row]):
                screen.print(Text(f"{step:4d} ", "dim") + frame(trace, row, step), soft_wrap=True)
        return
    # redirected, stdout would be a stream behind another, and rich's own codes made visible
    quiet = Live(console=screen, auto_refresh=False, redirect_stdout=False)
    with keys() as pressed, quiet as live:
        step, going = 0, True
        while True:
            foot = f"step {step} of {trace.steps}   {speed:g} steps/s   {KEYS}"
            below = [Text(line, "dim") for line in (legend(trace), foot) if line]
            live.update(Group(frame(trace, row, step), "", *below), refresh=True)
            ended = step == trace.steps
            key = pressed(1 / speed if going and not ended else None)
            if key == "" and going:
                step = min(step + 1, trace.steps)
            elif key in ("q", "\x03", "\x1b", "eof"):
                break
            elif key == " ":
                step, going = (0, True) if ended else (step, not going)
            elif key in ("+", "-"):
                speed = min(max(speed * (2 if key == "+" else 0.5), 0.125), 1024)
            elif key in ("left", "right"):
                step = max(0, min(trace.steps, step + (1 if key == "right" else -1)))
                going = False


@contextmanager
def keys() -> Iterator:
    """Single key presses: call it with a time limit in seconds; '' if none was pressed."""
    import termios
    import tty

    handle = sys.stdin.fileno()
    kept = termios.tcgetattr(handle)
    names = {b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOC": "right", b"\x1bOD": "left"}

    def pressed(limit: float | None) -> str:
        if not select.select([handle], [], [], limit)[0]:
            return ""
        raw = os.read(handle, 8)
        if raw.startswith(b"\x1b") and len(raw) > 1:
            return names.get(raw[:3], "other")
        return raw[:1].decode(errors="replace") if raw else "eof"

    try:
        tty.setcbreak(handle)
        yield pressed
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, kept)
