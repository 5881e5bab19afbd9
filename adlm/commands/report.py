"""`adlm report`."""

from __future__ import annotations

from pathlib import Path

from adlm.errors import UserError
from adlm.eval.report import gather
from adlm.results import write_text
from adlm.viz.page import to_html, to_markdown


def report(results: list[str], out: str = "report.html", title: str = "adlm report") -> None:
    """Put runs and result files on one self-contained page, and in Markdown beside it.

    What is damaged is left out, and said.

    Args:
        results: Runs (their curves and all files in eval/) and JSON files, in the order shown.
        out: The page; a .md of the same name is written beside it.
        title: Its title.
    """
    page = Path(out)
    if page.suffix not in (".html", ".htm"):
        raise UserError(f"--out {out} must end in .html: the Markdown goes beside it")
    sections = gather([Path(r) for r in results])
    write_text(page, to_html(sections, title))
    write_text(page.with_suffix(".md"), to_markdown(sections, title))
    print(f"written to {page} and {page.with_suffix('.md')}")
