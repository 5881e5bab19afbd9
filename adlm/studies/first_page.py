"""The quickstart's page: what came out, how a text appears, how to go on, then the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from adlm.studies.quickstart_result import QuickstartResult, QuickstartRow, WrittenTexts
from adlm.values import read_object
from adlm.viz.page import Section, to_html

TITLE, SHOWN = "adlm quickstart", "laptop-adlm"


def page(result: QuickstartResult, home: Path) -> str:
    """report.html, one self-contained page."""
    found, rows, about = result.section("In short"), result.rows, result.machine
    where = f"{about['cpu']}, {about['cores']} cores, torch {about['torch']}, {result.precision}."
    short = replace(found, plots=[], notes=[*found.notes[:-1], f"{found.notes[-1]} {where}"])
    learning = Section("How they learnt", plots=found.plots)
    return to_html([short, seen(home), onwards(home), learning, written(rows), filled(rows)], TITLE)


def seen(home: Path) -> Section:
    """Return the replay of ADLM's writing, in a frame."""
    saved: WrittenTexts = read_object(home / SHOWN / "eval" / "texts.json", WrittenTexts)
    return Section(
        "A text appears",
        notes=[
            f"{SHOWN} writes two texts. Grey boxes are masks; the legend says what is yellow. "
            "Press play, or drag the slider; hover over a token."
        ],
        frames=[(f"how {SHOWN} wrote two texts", saved.replay or "")],
    )


def written(rows: dict[str, QuickstartRow]) -> Section:
    columns = [
        (f"{name}: {way}", texts) for name, r in rows.items() for way, texts in r.samples.items()
    ]
    prompt = next(iter(rows.values())).prompt
    note = (
        f"Each text begins with “{prompt}” and is as long as a training row; none was picked. "
        "Models this small get the words and the tone of an address; few sentences hold together."
    )
    return Section("What they write", notes=[note], columns=columns)


def filled(rows: dict[str, QuickstartRow]) -> Section:
    holes = next(iter(rows.values())).holes
    note = (
        f"The text was “{holes}”. The diffusion models see both sides of a hole; the "
        "autoregressive ones write each hole from its left side alone."
    )
    columns = [(name, r.fillings) for name, r in rows.items()]
    return Section("How they fill holes", notes=[note], columns=columns)


def onwards(home: Path) -> Section:
    run = home / SHOWN
    return Section(
        "How to go on",
        notes=["In a new terminal, first `source .venv/bin/activate`."],
        commands=[
            f"adlm watch {run}",
            f"adlm sample {run} --trace out.html",
            f'adlm infill {run} "The [MASK] of the union is [MASK:4] ."',
            f"adlm eval samples {run} --judge none",
            f"adlm eval anchors {run}",
            "adlm train laptop-adlm --data my-texts/ --out runs/mine",
            "adlm study anchoring    # hours; it says how many before it begins",
            "adlm reason train arithmetic acot",
        ],
    )
