"""What a result looks like, whatever was measured: sections of one page, and the same in Markdown.

The page is `page.html`, a template that escapes all text and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from adlm.values import to_text
from adlm.viz.table import markdown_table


@dataclass
class Section:
    """A part of the page."""

    title: str
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # samples, shown as they are
    plots: list[tuple[str, bytes]] = field(default_factory=list)  # (caption, PNG)
    frames: list[tuple[str, str]] = field(default_factory=list)  # (caption, a whole page)
    columns: list[tuple[str, list[str]]] = field(default_factory=list)  # texts side by side
    commands: list[str] = field(default_factory=list)
    details: Any = None  # settings and hashes, folded away

    @property
    def worded(self) -> list[bool]:
        """Of each column of the table, does it have words? Figures stand to the right.

        Example:
            >>> Section("", rows=[["a", "3.1", "", "1.2 M"], ["b", "", "none", "≤ 4"]]).worded
            [True, False, True, False]
        """
        columns = zip_longest(*self.rows, fillvalue="")
        return [any(cell[:1].isalpha() or cell[:1] == "`" for cell in own) for own in columns]

    def text(self) -> str:
        """Table and notes for the terminal."""
        table = [markdown_table(self.header, self.rows)] if self.rows else []
        return "\n".join([*table, *self.notes])


CODE = re.compile(r"`([^`]+)`")
MARKS = re.compile(r"([\\`*\[\]#|~]|(?<!\w)_|_(?!\w))")  # characters that Markdown reads as its own


def to_html(sections: list[Section], title: str) -> str:
    """One self-contained page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "base64": lambda data: base64.b64encode(data).decode(),
        "code": lambda text: Markup(CODE.sub(r"<code>\1</code>", str(escape(text)))),
        "pretty": lambda values: to_text(values, indent=2),
    }
    template = files("adlm.viz").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(sections=sections, title=title) + "\n"


def to_markdown(sections: list[Section], title: str) -> str:
    """Return the same without pictures."""
    parts = [f"# {escaped(title)}"]
    for section in sections:
        parts += [f"## {escaped(section.title)}", markdown(section)]
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown(section: Section) -> str:
    """Table, notes and texts of a section, without its title."""
    parts = []
    if section.rows:
        rows = [[with_code(cell) for cell in row] for row in section.rows]
        parts.append(markdown_table([escaped(name) for name in section.header], rows))
    parts += [with_code(note) for note in section.notes]
    texts = [*section.texts, *(f"{name}: {t}" for name, own in section.columns for t in own)]
    quoted = ["\n".join(f"> {escaped(line)}" for line in t.splitlines()) for t in texts]
    return "\n\n".join([*parts, *quoted])


def with_code(text: str) -> str:
    r"""Text whose parts in backticks stay code; all else is shown as it is.

    Example:
        >>> with_code("`_a | c` and _a")
        '`_a \\| c` and \\_a'
    """
    parts = re.split(r"(`[^`]+`)", " ".join(text.splitlines()))
    return "".join(
        part.replace("|", r"\|") if CODE.fullmatch(part) else escaped(part) for part in parts
    )


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is: no HTML, no link, no picture, no mark-up.

    Example:
        >>> escaped("a|b <script> ![x](y)")
        'a\\|b &lt;script&gt; !\\[x\\](y)'
    """
    plain = " ".join(text.splitlines())
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKS.sub(r"\\\1", plain)
