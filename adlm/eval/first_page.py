"""The quickstart's page: what came out, how a text appears, how to go on, then the rest."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from adlm.eval.report import over
from adlm.viz.page import Section, to_html
from adlm.viz.plots import Line, png
from adlm.viz.table import spread

TITLE, SHOWN = "adlm quickstart", "laptop-adlm"


KINDS = {
    "laptop-ar": "autoregressive",
    "laptop-a2r": "autoregressive, through an anchor network",
    "laptop-mdlm": "masked diffusion",
    "laptop-adlm": "masked diffusion, through an anchor network",
    "laptop-deep": "masked diffusion, with an early loss on its first block",
}


def page(result: dict[str, Any], home: Path) -> str:
    """report.html, one self-contained page."""
    rows = result["rows"]
    sections = [summary(rows, result), seen(home), onwards(home), learning(rows)]
    return to_html([*sections, written(rows), filled(rows)], TITLE)


def summary(rows: dict[str, Any], result: dict[str, Any]) -> Section:
    """What was done and what came out, in three sentences and a table."""
    first = next(iter(rows.values()))
    train, data = first["config"]["train"], first["config"]["data"]
    tokens = train["steps"] * train["batch"] * data["length"]
    about = result["machine"]
    table = []
    for name, r in rows.items():
        minutes = (r["training_seconds"] or 0) / 60
        size = f"{r['parameters'] / 1e6:.2f} M"
        table.append([name, KINDS[name], size, figure(r), bits(r), f"{minutes:.1f}"])
    best = [
        f"The best {kind} is {name} with {figure(row)}."
        for kind, some in sides(rows).items()
        for name, row in sorted(some, key=lambda pair: pair[1]["ppl"])[:1]
    ]
    return Section(
        "In short",
        ["model", "what it is", "parameters", "test perplexity", "bits a byte", "minutes"],
        table,
        [
            f"{len(rows)} small models were trained on the State of the Union addresses, each on "
            f"{tokens / 1e6:.2f} million tokens in rows of {data['length']}. {' '.join(best)}",
            "An anchor network predicts tokens first (in rows this short the paper's rule marks "
            "nearly all of them), and the rest of the model sees that prediction alone (A2R, "
            "ADLM). laptop-deep is no anchored model: a second loss on the first block of an "
            "MDLM, for a quarter of the training.",
            f"Test split, {first['tokens']:,} tokens; ± is one standard error over {over(first)}. "
            "A diffusion model's perplexity is an upper bound (≤). One seed each: small "
            "differences mean nothing; `adlm study anchoring` compares over seeds. "
            f"{about['cpu']}, {about['cores']} cores, torch {about['torch']}, "
            f"{result['precision']}.",
        ],
        details={name: r["config"] | {"data_hash": r["data_hash"]} for name, r in rows.items()},
    )


def sides(rows: dict[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """The models whose figure is exact, and those whose figure is a bound."""
    kinds = {"autoregressive model": True, "diffusion model": False}
    return {
        kind: [(name, r) for name, r in rows.items() if r["exact"] == exact]
        for kind, exact in kinds.items()
    }


def figure(row: dict[str, Any]) -> str:
    return f"{'' if row['exact'] else '≤ '}{row['ppl']:.2f}{spread(row['se_ppl'])}"


def bits(row: dict[str, Any]) -> str:
    return f"{'' if row['exact'] else '≤ '}{row['bits_per_byte']:.3f}"


def learning(rows: dict[str, Any]) -> Section:
    lines = [
        Line(name, [t for t, _ in r["curve"]], [math.exp(v) for _, v in r["curve"]])
        for name, r in rows.items()
        if r["curve"]
    ]
    plot = png({"validation perplexity": lines}, "tokens", "PPL", log_y=True)
    return Section("How they learnt", plots=[("validation perplexity against tokens", plot)])


def seen(home: Path) -> Section:
    """The replay of ADLM's writing, in a frame."""
    saved = json.loads((home / SHOWN / "eval" / "texts.json").read_text(encoding="utf-8"))
    return Section(
        "A text appears",
        notes=[
            f"{SHOWN} writes two texts. Grey boxes are masks; the legend says what is yellow. "
            "Press play, or drag the slider; hover over a token."
        ],
        frames=[(f"how {SHOWN} wrote two texts", saved["replay"])],
    )


def written(rows: dict[str, Any]) -> Section:
    columns = [
        (f"{name}: {way}", texts) for name, r in rows.items() for way, texts in r["samples"].items()
    ]
    prompt = next(iter(rows.values()))["prompt"]
    note = (
        f"Each text begins with “{prompt}” and is as long as a training row; none was picked. "
        "Models this small get the words and the tone of an address; few sentences hold together."
    )
    return Section("What they write", notes=[note], columns=columns)


def filled(rows: dict[str, Any]) -> Section:
    holes = next(iter(rows.values()))["holes"]
    note = (
        f"The text was “{holes}”. The diffusion models see both sides of a hole; the "
        "autoregressive ones write each hole from its left side alone."
    )
    columns = [(name, r["fillings"]) for name, r in rows.items()]
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
