"""Figures as a table shows them, and tables for Markdown and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

WORDY = ("model", "recipe", "what it is")  # columns that read from the left


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


def terminal_table(header: list[str], rows: list[list[str]], title: str = "") -> Table:
    """Return a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None)
    for name in header:
        wordy = name in WORDY
        made.add_column(name, justify="left" if wordy else "right", no_wrap=not wordy)
    for row in rows:
        made.add_row(*map(Text, row))
    return made
