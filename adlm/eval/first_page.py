"""The quickstart's page: what was done, what came out, how a text appears, how to go on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from adlm.eval.page import Section, to_html
from adlm.eval.report import over, png, spread
from adlm.viz.plots import Line

TITLE = "adlm quickstart"


def page(result: dict[str, Any], home: Path) -> str:
    """report.html, one self-contained page."""
    rows = result["rows"]
    sections = [what(rows, result), figures(rows), learning(rows)]
    sections += [seen(rows, home), written(rows), filled(rows), onwards(home)]
    return to_html(sections, TITLE)


def what(rows: dict[str, Any], result: dict[str, Any]) -> Section:
    first = next(iter(rows.values()))
    train, data = first["config"]["train"], first["config"]["data"]
    tokens = train["steps"] * train["batch"] * data["length"]
    about = result["machine"]
    return Section(
        "What was done",
        notes=[
            f"Four small models were trained on the State of the Union addresses, each on "
            f"{tokens / 1e6:.2f} million tokens of a vocabulary of "
            f"{data['tokenizer'].split(':')[1]}, in rows of {data['length']}: an autoregressive "
            "model (AR) and a masked diffusion model (MDLM) of one trunk, and the same two with an "
            "anchor network in front (A2R, ADLM), which learns to predict the tokens that carry "
            "the meaning; the rest of the network goes on from its state.",
            f"{about['cpu']}, {about['cores']} cores, torch {about['torch']}, "
            f"{result['precision']}.",
        ],
    )


def figures(rows: dict[str, Any]) -> Section:
    made = []
    for name, r in rows.items():
        bound = "" if r["exact"] else "≤ "
        minutes = (r["training_seconds"] or 0) / 60
        made.append(
            [
                name,
                f"{r['parameters']:,}",
                f"{bound}{r['ppl']:.2f}{spread(r['se_ppl'])}",
                f"{bound}{r['bits_per_byte']:.3f}",
                f"{minutes:.1f}",
            ]
        )
    first = next(iter(rows.values()))
    return Section(
        "How well they predict",
        ["model", "parameters", "test perplexity", "bits a byte", "minutes of training"],
        made,
        [
            f"Test split, {first['tokens']:,} tokens; ± is one standard error over {over(first)}. "
            "A diffusion model's perplexity is an upper bound (≤): it cannot be computed exactly. "
            "One seed each, at a few minutes of training: small differences mean nothing. "
            "`adlm study anchoring` compares over seeds, with models of equal size."
        ],
        details={name: r["config"] | {"data_hash": r["data_hash"]} for name, r in rows.items()},
    )


def learning(rows: dict[str, Any]) -> Section:
    lines = [
        Line(name, [t for t, _ in r["curve"]], [math.exp(v) for _, v in r["curve"]])
        for name, r in rows.items()
        if r["curve"]
    ]
    plot = png({"validation perplexity": lines}, "tokens", "PPL", log_y=True)
    return Section("How they learnt", plots=[("validation perplexity against tokens", plot)])


def seen(rows: dict[str, Any], home: Path) -> Section:
    """The replay of ADLM's writing, in a frame."""
    saved = json.loads((home / "laptop-adlm" / "eval" / "texts.json").read_text())
    return Section(
        "A text appears",
        notes=[
            "ADLM writes two texts. Grey boxes are masks; yellow tokens are anchors, the rarer "
            "ones. Press play, or drag the slider; hover over a token."
        ],
        frames=[("how ADLM wrote two texts", saved["replay"])],
    )


def written(rows: dict[str, Any]) -> Section:
    columns = [
        (f"{name}: {way}", texts) for name, r in rows.items() for way, texts in r["samples"].items()
    ]
    prompt = next(iter(rows.values()))["prompt"]
    note = (
        f"Each text begins with “{prompt}” and is as long as a training row. Models this "
        "small write presidential prose for a clause at a time, not an argument."
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
    run = home / "laptop-adlm"
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
