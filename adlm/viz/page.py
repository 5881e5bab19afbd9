"""A self-contained page of sections: what a result looks like, whatever was measured."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import dataclass, field
from typing import Any

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

    def text(self) -> str:
        """Table and notes for the terminal."""
        table = [markdown_table(self.header, self.rows)] if self.rows else []
        return "\n".join([*table, *self.notes])


STYLE = """
:root { color-scheme: light dark; --ink: #22252b; --paper: #fbfaf7; --line: #ddd9cf;
  --faint: #6c7280; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e6e2; --paper: #15171b; --line: #343944; --faint: #9aa0ac; }
  img { filter: invert(0.92) hue-rotate(180deg); }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; }
.note, figcaption, summary { color: var(--faint); font-size: 0.88rem; }
blockquote { margin: 0.6rem 0; padding: 0.2rem 0.9rem; border-left: 3px solid var(--line);
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: Georgia, serif; }
pre { overflow-x: auto; font-size: 0.8rem; }
figure { margin: 0.8rem 0; }
iframe { width: 100%; height: 34rem; border: 1px solid var(--line); border-radius: 0.7rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; }
h3 { font-size: 0.95rem; margin: 0.4rem 0; }
.commands { font-size: 0.9rem; border: 1px solid var(--line); border-radius: 0.5rem;
  padding: 0.7rem 1rem; }
"""


# a frame is as high as what it shows, also when the window's width changes
FITTED = """<script>{
  const frame = document.currentScript.previousElementSibling;
  const fit = () => {
    const page = frame.contentDocument && frame.contentDocument.querySelector("main");
    if (page) frame.style.height = page.offsetHeight + 8 + "px";
  };
  frame.onload = fit;
  addEventListener("resize", fit);
}</script>"""
CODE = re.compile(r"`([^`]+)`")


def to_html(sections: list[Section], title: str) -> str:
    """One page that loads nothing from anywhere; all text is escaped."""
    esc = html.escape
    out = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{esc(title)}</title><style>{STYLE}</style></head><body><h1>{esc(title)}</h1>",
    ]
    for s in sections:
        out.append(f"<section><h2>{esc(s.title)}</h2>")
        if s.rows:
            head = "".join(f"<th>{esc(h)}</th>" for h in s.header)
            body = "".join(
                "<tr>" + "".join(f"<td>{esc(c)}</td>" for c in row) + "</tr>" for row in s.rows
            )
            out.append(f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>")
        notes = [CODE.sub(r"<code>\1</code>", esc(n)) for n in s.notes]
        out += [f"<p class='note'>{note}</p>" for note in notes]
        for caption, data in s.plots:
            code = base64.b64encode(data).decode()
            out.append(
                f"<figure><img alt='{esc(caption)}' src='data:image/png;base64,{code}'>"
                f"<figcaption>{esc(caption)}</figcaption></figure>"
            )
        out += [f"<blockquote>{esc(t)}</blockquote>" for t in s.texts]
        for caption, inner in s.frames:
            out.append(f"<iframe title='{esc(caption)}' srcdoc=\"{esc(inner)}\"></iframe>{FITTED}")
        if s.columns:
            out.append("<div class='columns'>")
            for name, texts in s.columns:
                quotes = "".join(f"<blockquote>{esc(t)}</blockquote>" for t in texts)
                out.append(f"<div><h3>{esc(name)}</h3>{quotes}</div>")
            out.append("</div>")
        if s.commands:
            out.append(f"<pre class='commands'>{esc(chr(10).join(s.commands))}</pre>")
        if s.details:
            shown = esc(json.dumps(s.details, indent=2))
            out.append(f"<details><summary>settings</summary><pre>{shown}</pre></details>")
        out.append("</section>")
    return "\n".join([*out, "</body></html>\n"])


def to_markdown(sections: list[Section], title: str) -> str:
    """The same without pictures."""
    out = [f"# {title}"]
    for s in sections:
        out.append(f"## {s.title}")
        if s.rows:
            out.append(markdown_table(s.header, s.rows))
        out += s.notes
        texts = [*s.texts, *(f"{name}: {t}" for name, own in s.columns for t in own)]
        out += ["\n".join(f"> {line}" for line in t.splitlines()) for t in texts]
    return "\n\n".join(out) + "\n"
