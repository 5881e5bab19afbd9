"""One page of everything that was measured: a section for each result, from its JSON file alone.

A section is made by the function that is registered for the result's command; what none knows is
shown as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adlm.errors import UserError
from adlm.registry import lookup, names
from adlm.train.log import read
from adlm.viz.page import Section
from adlm.viz.plots import Line, png
from adlm.viz.table import spread


def gather(paths: list[Path]) -> list[Section]:
    """Sections of runs and result files, in the order given."""
    out: list[Section] = []
    for path in paths:
        if path.is_dir():
            found = sorted((path / "eval").glob("*.json"))
            records = read(path / "metrics.jsonl")
            if not records and not found:
                raise UserError(f"{path} is neither a run nor a result: it has no metrics.jsonl")
            if records:
                out.append(training(path, records))
            out += [of_file(file) for file in found]
        else:
            out.append(of_file(path))
    return out


def of_file(path: Path) -> Section:
    """The section of one result file."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path} is not a JSON file") from None
    if not isinstance(result, dict):
        raise UserError(f"{path} is not a result file: it holds no object")
    kind = result.get("command") if isinstance(result.get("command"), str) else None
    if "study" in result:
        kind = "study reasoning" if result["study"] == "reasoning" else "study"
    try:
        if kind in names("result"):
            made = lookup("result", kind).from_json(result, path).section(path.stem)
        else:
            made = SECTIONS.get(kind or "", unknown)(result, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a whole result of '{kind}' ({error!r})") from None
    name = path.stem.removeprefix("eval-")
    if path.stem.startswith("eval-") and name not in made.title:  # which run's, among several
        made.title += f" ({name})"
    made.details = {k: v for k, v in result.items() if k in DETAILS}
    return made


DETAILS = (
    "config", "configs", "seed", "data_hash", "checkpoint", "checkpoints", "checkpoint_hash",
    "tokenizer_hash", "tokens", "draws", "sampling", "judge", "features", "machine", "device",
    "precision",
)  # fmt: skip


def training(path: Path, records: list[dict[str, Any]]) -> Section:
    """Loss curves of a run."""
    loss = [r for r in records if "loss" in r]
    valid = [r for r in records if "valid_nll" in r]
    lines = [Line("training", [r["tokens"] for r in loss], [r["loss"] for r in loss])]
    if valid:
        points = [r["tokens"] for r in valid], [r["valid_nll"] for r in valid]
        lines.append(Line("validation", *points))
    file = path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    step = records[-1]["step"]
    wanted = ((config or {}).get("train") or {}).get("steps", step)
    unfinished = f" of {wanted:,}: the run is not finished" if step < wanted else ""
    return Section(
        f"Training: {path.name}",
        notes=[f"{records[-1].get('tokens', 0):,} tokens in {step:,} steps{unfinished}."],
        plots=[("nats a token", png({path.name: lines}, "tokens", "nats a token"))],
        details=config,
    )


def over(result: dict[str, Any]) -> str:
    """What a standard error is taken over; files of older versions have it over rows."""
    return result.get("se_over", "rows")


def study(result: dict[str, Any], path: Path) -> Section:
    rows, lines = [], []
    for r in result["rows"]:
        bound = "" if r["exact"] else "≤ "
        figure = f"{bound}{r['test_ppl_mean']:.2f}{spread(r['test_ppl_sd'])}"
        rows.append([r["row"], f"{r['parameters']:,}", str(len(r["seeds"])), figure])
        if r["row"] in result.get("shown", [r["row"]]):
            lines.append(Line(r["row"], r["curve"]["tokens"], r["curve"]["valid_nll_mean"]))
    plot = png({result["study"]: lines}, "tokens", "validation nats a token")
    header = ["model", "parameters", "seeds", "test PPL (mean ± sd over seeds)"]
    return Section(f"Study: {result['study']}", header, rows, [], [], [("curves", plot)])


def study_reasoning(result: dict[str, Any], path: Path) -> Section:
    rows = []
    for r in result["rows"]:
        low, high = (100 * end for end in r["interval"])
        accuracy = f"{100 * r['mean']:.1f}"
        if r["sd"] is not None:
            accuracy += spread(100 * r["sd"], 1)
        cost = [f"{r['tokens']:.1f}", f"{r['slots']:.1f}"]
        shares = ["" if r[k] is None else f"{r[k]:.1%}" for k in ("sound_traces", "anchor_recall")]
        rows.append([r["method"], accuracy, f"{low:.1f} to {high:.1f}", *cost, *shares])
    header = ["method", "accuracy", "95 % interval", "tokens", "slots", "sound", "anchors found"]
    seeds = len(result["rows"][0]["seeds"])
    notes = [f"Mean ± sd over {seeds} seeds, in per cent; {result['rows'][0]['source']}."]
    return Section(f"Reasoning: {result['task']}", header, rows, notes)


def unknown(result: dict[str, Any], path: Path) -> Section:
    rows = [[k, str(v)] for k, v in result.items() if isinstance(v, str | int | float)]
    return Section(path.stem, ["field", "value"], rows)


SECTIONS: dict[str, Callable[[dict[str, Any], Path], Section]] = {
    "study": study,
    "study reasoning": study_reasoning,
}
