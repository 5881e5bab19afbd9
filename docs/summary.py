"""The first section of docs/results.md: the main figures on one screen, and how old results are.

Files and rows may be missing; what is there is shown. A study's row whose settings are not those of
today's recipe says so, and is not described as what the recipe is today.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from adlm.config import Config, from_dict, to_dict
from adlm.errors import UserError
from adlm.recipes import recipe
from adlm.studies.anchoring import LONGER, PAIRS

Read = Callable[[str], dict[str, Any] | None]

# row of the study -> (recipe, what it is)
MODELS = {
    "MDLM": ("laptop-mdlm", "masked diffusion"),
    LONGER["ADLM"]: ("laptop-mdlm", "the same, trained for as many FLOPs as ADLM"),
    "ADLM": ("laptop-adlm", "masked diffusion through an anchor network: the paper's system"),
    LONGER["deep"]: ("laptop-mdlm", "masked diffusion, trained for as many FLOPs as deep"),
    "deep": ("laptop-deep", "masked diffusion with an early loss on its first block, no anchors"),
    "AR": ("laptop-ar", "autoregressive"),
    "A2R": ("laptop-a2r", "autoregressive through an anchor network"),
}
OLDER = "made with earlier settings"


def age(result: dict[str, Any]) -> str:
    """When and by which commit a result was made."""
    date, commit = result.get("date"), result.get("commit")
    when = f"made {date}" if date else "made before dates were kept"
    return f"{when}, commit {commit[:9]}" if commit else when


def summary(read: Read, reasoning: list[str]) -> list[str]:
    """The section's parts, none where there is no result; `reasoning` names result files."""
    study, quick = read("study-anchoring"), read("quickstart")
    tasks = {name: found for name in reasoning if (found := read(name))}
    parts = [*models(study, quick), *pairs(study), *solved(list(tasks.values()))]
    files = {"study-anchoring": study, "quickstart": quick, **tasks}
    return ["## In short", *parts, ages(files)] if parts else []


def ages(files: dict[str, dict[str, Any] | None]) -> str:
    """One sentence: which result was made when."""
    by: dict[str, list[str]] = {}
    for name, found in files.items():
        if found:
            by.setdefault(age(found), []).append(name)
    return "; ".join(f"{', '.join(names)}: {when}" for when, names in by.items()) + "."


def models(study: dict[str, Any] | None, quick: dict[str, Any] | None) -> list[str]:
    """Test perplexity of each kind of model, in the study over seeds and in the quickstart."""
    studied = {row["row"]: row for row in (study or {}).get("rows", ())}
    short = (quick or {}).get("rows", {})
    rows = []
    for name, (made_by, what) in MODELS.items():
        row, alone = studied.get(name), short.get(made_by) if name not in LONGER.values() else None
        if row or alone:
            kept = all(same(found["config"], made_by) for found in (row, alone) if found)
            seeds = str(len(row["seeds"])) if row else ""
            rows.append([name, what if kept else OLDER, over_seeds(row), seeds, of_one(alone)])
    if not rows:
        return []
    header = ["model", "what it is", "test PPL, study", "seeds", "test PPL, quickstart"]
    said = (
        "Perplexity (PPL) says how surprised a model is by the test text; less is better. A "
        "diffusion model's is an upper bound (≤). In the study ± is one standard deviation over "
        "seeds. The quickstart trains each model once, for fewer tokens; there ± is one standard "
        "error of that one figure."
    )
    return [table(header, rows), said]


def front(read: Read) -> str:
    """The README's table: at most seven rows, each with its cost and its spread."""
    study = read("study-anchoring") or {"rows": []}
    found = {row["row"]: row for row in study["rows"]}
    plain = found.get("MDLM", {}).get("training_flops", 1.0)
    rows = [
        [
            name,
            what,
            f"{found[name]['training_flops'] / plain:.2f}",
            over_seeds(found[name]),
            str(len(found[name]["seeds"])),
        ]
        for name, (_, what) in MODELS.items()
        if name in found and name != LONGER["deep"]
    ]
    if (task := read("study-reasoning-prosqa")) is not None:
        by = {row["method"]: row for row in task["rows"]}
        both = f"{right(by['acot'])}; CoT {right(by['cot'])}"
        seeds = str(len(by["acot"]["seeds"]))
        rows.append(["ACoT", "chain of thought with anchors first, on ProsQA", "", both, seeds])
    return table(["model", "what it is", "training FLOPs", "test perplexity", "seeds"], rows)


def over_seeds(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return bound(row) + figure(row["test_ppl_mean"], row["test_ppl_sd"], 2)


def of_one(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return bound(row) + figure(row["ppl"], row["se_ppl"], 1)


def figure(value: float, spread: float | None, digits: int) -> str:
    """A figure with its spread, never broken between lines."""
    shown = f"{value:.{digits}f}"
    return shown if spread is None else f"{shown}\u00a0±\u00a0{spread:.{digits}f}"


def bound(row: dict[str, Any]) -> str:
    return "" if row["exact"] else "≤\u00a0"


def same(stored: dict[str, Any], name: str) -> bool:
    """Are the stored settings those of today's recipe, length and seed of the run aside?"""
    today = recipe(name)
    try:
        then: Config = from_dict(stored)
    except (UserError, TypeError):
        return False
    return to_dict(replace(then, train=today.train)) == to_dict(today)


def pairs(study: dict[str, Any] | None) -> list[str]:
    """The study's questions, each with the difference of its two rows."""
    found = {(p["row"], p["against"]): p for p in (study or {}).get("pairs", ())}
    lines = []
    for row, other in PAIRS:
        if pair := found.get((row, other)):
            mean = statistics.mean(pair["test_ppl"])
            said = f"- {row} against {other}: {mean:+.2f} PPL"
            if pair["ci95"]:
                low, high = pair["ci95"]
                said += f" (95 % interval {low:+.2f} to {high:+.2f})"
            lines.append(said)
    if not lines:
        return []
    return ["Seed by seed, a figure below 0 means that the first is better:", "\n".join(lines)]


def solved(tasks: list[dict[str, Any]]) -> list[str]:
    """Accuracy of anchored chain of thought (ACoT) beside chain of thought (CoT)."""
    rows = []
    for task in tasks:
        by = {row["method"]: row for row in task["rows"]}
        if "acot" in by and "cot" in by:
            rows.append([task["task"], *(right(by.get(m)) for m in ("no-cot", "cot", "acot"))])
    if not rows:
        return []
    header = ["reasoning task", "no reasoning", "chain of thought", "anchored chain of thought"]
    said = "Right answers; ± is one standard deviation over seeds, then the tokens of an answer."
    return [table(header, rows), said]


def right(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    shown = figure(100 * row["mean"], None if row["sd"] is None else 100 * row["sd"], 1)
    return f"{shown}\u00a0%, {row['tokens'] + row['slots']:.0f}\u00a0tokens"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
