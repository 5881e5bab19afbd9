"""The first section of docs/results.md: the main figures on one screen, and how old results are.

Files and rows may be missing; what is there is shown. A study's row whose settings are not those of
today's recipe says so, and is not described as what the recipe is today.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import texts

from adlm.config import Config, from_dict, to_dict
from adlm.errors import UserError
from adlm.eval.seeds import interval
from adlm.recipes import recipe
from adlm.results import Result
from adlm.studies.anchoring import LONGER, PAIRS
from adlm.studies.quickstart_result import QuickstartResult
from adlm.studies.reasoning import ReasoningRow, ReasoningStudyResult
from adlm.studies.result import StudyResult, StudyRow
from adlm.viz.table import markdown_table, spread

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


def age(result: Result) -> str:
    """When and by which commit a result was made."""
    when = f"made {result.date}" if result.date else "made before dates were kept"
    return f"{when}, commit {result.commit[:9]}" if result.commit else when


def summary(
    study: StudyResult | None,
    quick: QuickstartResult | None,
    tasks: dict[str, ReasoningStudyResult],
) -> list[str]:
    """The section's parts, none where there is no result; tasks by the names of their files."""
    parts = [*models(study, quick), *pairs(study), *solved(list(tasks.values()))]
    files = {"study-anchoring": study, "quickstart": quick, **tasks}
    return ["## In short", *parts, ages(files)] if parts else []


def ages(files: dict[str, Result | None]) -> str:
    """One sentence: which result was made when."""
    by: dict[str, list[str]] = {}
    for name, found in files.items():
        if found:
            by.setdefault(age(found), []).append(name)
    return "; ".join(f"{', '.join(names)}: {when}" for when, names in by.items()) + "."


def models(study: StudyResult | None, quick: QuickstartResult | None) -> list[str]:
    """Test perplexity of each kind of model, in the study over seeds and in the quickstart."""
    studied = {row.row: row for row in study.rows} if study else {}
    short = quick.rows if quick else {}
    rows = []
    for name, (made_by, what) in MODELS.items():
        row, alone = studied.get(name), short.get(made_by) if name not in LONGER.values() else None
        found = [r for r in (row, alone) if r]
        if found:
            kept = all(same(r.config, made_by) for r in found)
            cells = [glued(row.figure), str(len(row.seeds))] if row else ["", ""]
            rows.append(
                [name, what if kept else OLDER, *cells, glued(alone.figure) if alone else ""]
            )
    if not rows:
        return []
    header = ["model", "what it is", "test PPL, study", "seeds", "test PPL, quickstart"]
    said = (
        "Perplexity (PPL) says how surprised a model is by the test text; less is better. A "
        "diffusion model's is an upper bound (≤). In the study ± is one standard deviation over "
        "seeds. The quickstart trains each model once, for fewer tokens; there ± is one standard "
        "error of that one figure."
    )
    return [markdown_table(header, rows), said]


def front(study: StudyResult | None, task: ReasoningStudyResult | None) -> str:
    """The README's table: at most seven rows, each with its cost and its spread."""
    found = {row.row: row for row in study.rows} if study else {}
    plain = found["MDLM"].training_flops if "MDLM" in found else 1.0
    rows = []
    for name, (_, what) in MODELS.items():
        if name in found and name != LONGER["deep"]:
            row = found[name]
            cost = f"{row.training_flops / plain:.2f}"
            rows.append([name, what, cost, certain(row), str(len(row.seeds))])
    if task is not None:
        by = {row.method: row for row in task.rows}
        both = f"{solved_certainly(by['acot'])}; CoT {solved_certainly(by['cot'])}"
        what = f"chain of thought with anchors first, on {where(task)}"
        rows.append(["ACoT", what, "", both, str(len(by["acot"].seeds))])
    figure = "test perplexity" if task is None else "test perplexity; ACoT: right answers"
    header = ["model", "what it is", "FLOPs, MDLM's = 1", figure, "seeds"]
    said = "Brackets are 95 % intervals: over seeds for perplexity, over test items for ACoT."
    if study:
        told = f"Test perplexity after {texts.million(study.tokens)} training tokens"
        if longer := found.get(LONGER["ADLM"]):
            told += f"; the MDLM of ADLM's training FLOPs has {texts.million(longer.tokens)}"
        said = f"{told}. {said}"
    return f"{markdown_table(header, rows)}\n\n{texts.wrapped(said)}"


def where(task: ReasoningStudyResult) -> str:
    """Which items a study of reasoning solved, in a few words."""
    own = (
        "ProsQA's own test items" if task.rows[0].source == "prosqa_test.json" else "a small ProsQA"
    )
    return own if task.task == "prosqa" else task.task


def certain(row: StudyRow) -> str:
    """A perplexity with the 95 % interval of its mean over seeds, where there are enough."""
    found = interval(row.test_ppl)
    bound = "" if row.exact else "≤ "
    ends = f" ({found[0]:.2f} to {found[1]:.2f})" if found else ""
    return glued(f"{bound}{row.mean:.2f}{ends}")


def solved_certainly(row: ReasoningRow) -> str:
    """A share of right answers with its 95 % interval, and the tokens of an answer."""
    low, high = (100 * end for end in row.interval)
    tokens = f"{row.tokens + row.slots:.0f}\u00a0tokens"
    return f"{glued(f'{100 * row.mean:.1f} % ({low:.1f} to {high:.1f})')}, {tokens}"


def glued(figure: str) -> str:
    """A figure that is never broken between lines."""
    return figure.replace(" ", "\u00a0")


def same(stored: dict[str, Any], name: str) -> bool:
    """Are the stored settings those of today's recipe, length and seed of the run aside?"""
    today = recipe(name)
    try:
        then: Config = from_dict(stored)
    except (UserError, TypeError):
        return False
    return to_dict(replace(then, train=today.train)) == to_dict(today)


def pairs(study: StudyResult | None) -> list[str]:
    """The study's questions, each with the difference of its two rows."""
    found = {(p.row, p.against): p for p in study.pairs} if study else {}
    lines = []
    for row, other in PAIRS:
        if pair := found.get((row, other)):
            said = f"- {row} against {other}: {statistics.mean(pair.test_ppl):+.2f} PPL"
            if pair.ci95:
                low, high = pair.ci95
                said += f" (95 % interval {low:+.2f} to {high:+.2f})"
            lines.append(said)
    if not lines:
        return []
    return ["Seed by seed, a figure below 0 means that the first is better:", "\n".join(lines)]


def solved(tasks: list[ReasoningStudyResult]) -> list[str]:
    """Accuracy of anchored chain of thought (ACoT) beside chain of thought (CoT)."""
    rows = []
    for task in tasks:
        by = {row.method: row for row in task.rows}
        if "acot" in by and "cot" in by:
            name = where(task) if task.task == "prosqa" else task.task
            rows.append([name, *(right(by.get(m)) for m in ("no-cot", "cot", "acot"))])
    if not rows:
        return []
    header = ["reasoning task", "no reasoning", "chain of thought", "anchored chain of thought"]
    said = "Right answers; ± is one standard deviation over seeds, then the tokens of an answer."
    return [markdown_table(header, rows), said]


def right(row: ReasoningRow | None) -> str:
    """Accuracy and tokens of an answer."""
    if row is None:
        return ""
    error = spread(None if row.sd is None else 100 * row.sd, 1)
    return f"{glued(f'{100 * row.mean:.1f}{error} %')}, {row.tokens + row.slots:.0f}\u00a0tokens"
