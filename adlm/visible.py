"""Text from elsewhere in a terminal: what would steer it is made visible instead.

Generated text, names in files and words that a sentence repeats may have escape codes in them,
which retitle a terminal, paint over other lines or worse. `Screen` (in `progress.py`) shows what is
printed through rich by `visible`, and `main` what is printed by `print`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

KEPT = "\n\t"
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in KEPT}  # ␛ for escape
STEERING = {**PICTURES, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


def visible(text: str) -> str:
    r"""Show control characters, but line ends and tabs, as pictures of themselves.

    Example:
        >>> visible("\x1b[31mred\x07")
        '␛[31mred␇'
    """
    return text.translate(STEERING)


class VisibleStream:
    """A text stream that shows what is printed to it by `visible`; rich writes past it."""

    def __init__(self, raw: TextIO):
        self.rich_proxied_file = raw  # the name under which rich looks for the stream behind

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def visible_prints() -> Iterator[None]:
    """Inside, `print` shows all text by `visible`."""
    raw = sys.stdout
    if raw is not None:  # it is where a terminal's is closed
        sys.stdout = VisibleStream(raw)
    try:
        yield
        if raw is not None:
            raw.flush()  # here, where a full disk can still be told
    finally:
        sys.stdout = raw
