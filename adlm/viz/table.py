"""Figures as a table shows them, and tables for Markdown and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

LONG = "what it is"
WORDY = ("model", "recipe", LONG)  # columns that read from the left
WIDE = 110  # characters of a terminal in which the long one has room


def number(value: float | None, digits: int = 2) -> str:
    """Return a figure, or nothing.

    Example:
        >>> number(1.234), number(None)
        ('1.23', '')
    """
    return "" if value is None else f"{value:.{digits}f}"


def mib(value: float | None) -> str:
    """Memory in MiB, or nothing."""
    return "" if value is None else f"{value:,.0f}"


def spread(value: float | None, digits: int = 2) -> str:
    """Return what follows a figure that has a standard error or deviation.

    Example:
        >>> f"51.5{spread(0.25, 1)}"
        '51.5 ± 0.2'
    """
    return "" if value is None else f" ± {value:.{digits}f}"


def bounded(value: float, exact: bool, error: float | None = None, digits: int = 2) -> str:
    """Return a perplexity with its spread; ≤ says that it is an upper bound.

    Example:
        >>> bounded(51.5, False, 0.25), bounded(27.7, True)
        ('≤ 51.50 ± 0.25', '27.70')
    """
    return f"{'' if exact else '≤ '}{value:.{digits}f}{spread(error, digits)}"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def terminal_table(
    header: list[str], rows: list[list[str]], title: str = "", width: int = 80
) -> Table:
    """A table for a terminal so many characters wide; a narrow one gets no column of words."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None)
    kept = [i for i, name in enumerate(header) if name != LONG or width >= WIDE]
    for i in kept:
        left = header[i] in WORDY
        made.add_column(header[i], justify="left" if left else "right", no_wrap=header[i] != LONG)
    for row in rows:
        made.add_row(*(Text(row[i]) for i in kept))
    return made
