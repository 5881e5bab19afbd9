"""Plots through matplotlib, which is asked for only when a picture is made."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from adlm.errors import need

FEW_LINES = 6  # more of them, and their names stand beside the panel
LARGE = 100_000  # numbers from here on are written in thousands and millions
FEW = 8  # places on an axis that are all named


@dataclass(frozen=True)
class Line:
    """One curve; `low` and `high` draw a band. With `ringed` it is points, some with a ring."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    ringed: Sequence[bool] | None = None


@dataclass(frozen=True)
class Bars:
    """Horizontal bars with intervals and a note at each."""

    labels: Sequence[str]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    notes: Sequence[str]


def require(module: str = "matplotlib", what: str = "a plot") -> None:
    """Raise UserError unless the module is installed: before hours of work, not after."""
    if find_spec(module) is None:
        raise need(module, "plots", what)


def curves(
    where: Path | BinaryIO,
    panels: dict[str, list[Line]],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool | Sequence[str] = False,
) -> None:
    """One panel a title, side by side, saved as a PNG: a file, or into a buffer.

    log_y is of all panels, or of those with the titles in it.
    """
    if isinstance(where, Path):
        where.parent.mkdir(parents=True, exist_ok=True)
    require()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter, LogFormatter, NullLocator

    most = max(map(len, panels.values()))
    many = most > FEW_LINES
    size = (1.2 + (8.4 if many else 4.8) * len(panels), max(4.2, 0.5 + 0.18 * most))
    figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for number, line in enumerate(lines):
            # there are ten colours: the eleventh line has the first one's, in another style
            style = "--" if line.dashed else ("-", "-.", ":")[number // 10 % 3]
            style = style if line.ringed is None else "."
            style += "o" if len(line.x) == 1 and line.ringed is None else ""  # else it is not seen
            (drawn,) = axis.plot(line.x, line.y, style, label=line.label, linewidth=1.6)
            rings = [p for p in zip(line.x, line.y, line.ringed or (), strict=False) if p[2]]
            axis.plot(
                [x for x, _, _ in rings],
                [y for _, y, _ in rings],
                "o",
                markersize=10,
                markerfacecolor="none",
                color=drawn.get_color(),
            )
            if line.low is not None and line.high is not None:
                axis.fill_between(line.x, line.low, line.high, alpha=0.18, color=drawn.get_color())
        axis.set_title(title, fontsize=11)
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        axis.set_xscale("log" if log_x else "linear")
        log = log_y if isinstance(log_y, bool) else title in log_y
        axis.set_yscale("log" if log else "linear")
        if log and min((v for line in lines for v in line.y), default=0.0) >= 1:
            axis.yaxis.set_major_formatter(LogFormatter())  # 100, not 10 to the second
            axis.yaxis.set_minor_formatter(LogFormatter())
        if not log_x and max((v for line in lines for v in line.x), default=0.0) >= LARGE:
            axis.xaxis.set_major_formatter(EngFormatter())  # 1.5 M
        places = sorted({v for line in lines for v in line.x})
        if log_x and 0 < len(places) <= FEW and places[-1] >= LARGE:  # a few budgets
            axis.set_xticks(places)
            axis.xaxis.set_major_formatter(EngFormatter())
            axis.xaxis.set_minor_locator(NullLocator())
        axis.grid(alpha=0.25)
        beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if many else {}
        axis.legend(fontsize=8, frameon=False, **beside)
    figure.savefig(where, dpi=130, format="png")
    plt.close(figure)


def png(
    panels: dict[str, list[Line]],
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool | Sequence[str] = False,
) -> bytes:
    """Draw `curves` as the bytes of a PNG."""
    buffer = io.BytesIO()
    curves(buffer, panels, x, y, log_x, log_y)
    return buffer.getvalue()


def bars(title: str, data: Bars) -> bytes:
    """Draw bars of shares in [0, 1], the first at the top, as the bytes of a PNG."""
    require()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 0.9 + 0.45 * len(data.labels)), layout="constrained")
    y = range(len(data.labels))
    below = [v - a for v, a in zip(data.values, data.low, strict=True)]
    above = [b - v for v, b in zip(data.values, data.high, strict=True)]
    axis.barh(y, data.values, xerr=(below, above), color="#7aa6d8", ecolor="#333", capsize=3)
    for place, (high, note) in enumerate(zip(data.high, data.notes, strict=True)):
        axis.text(high + 0.01, place, note, va="center", fontsize=8)
    axis.set_yticks(y, data.labels)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axis.set_title(title, fontsize=11)
    axis.grid(alpha=0.25, axis="x")
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, format="png")
    plt.close(figure)
    return buffer.getvalue()
