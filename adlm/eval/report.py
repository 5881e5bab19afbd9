"""One page of everything that was measured: a section for each result, from its JSON file alone.

A section is made by the function that is registered for the result's command; what none knows is
shown as it is.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adlm.errors import UserError
from adlm.eval.likelihood import sign
from adlm.train.log import read
from adlm.viz.page import Section
from adlm.viz.plots import Line, curves


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


def likelihood(result: dict[str, Any], path: Path) -> Section:
    text = f"{result['data']} ({result['split']})"
    named = {text: result}
    notes = [
        f"{result['quantity']}, {result['estimator']}, {result['draws']} draw(s) a row; "
        f"± is one standard error over {over(result)}."
    ]
    if coded := result.get("with_length"):
        named[f"{text}, lengths coded"] = coded
        notes.append(f"To be compared with AR is the row with coded lengths: {coded['code']}.")
    rows = [
        [
            name,
            f"{sign(result)}{found['ppl']:.2f}{spread(found['se_ppl'])}",
            f"{sign(result)}{found['bits_per_byte']:.4f}",
            f"{result['tokens']:,}",
        ]
        for name, found in named.items()
    ]
    header = ["data", "PPL", "bits a byte", "tokens scored"]
    return Section(f"Likelihood: {path.stem}", header, rows, notes)


def over(result: dict[str, Any]) -> str:
    """What a standard error is taken over; files of older versions have it over rows."""
    return result.get("se_over", "rows")


def zeroshot(result: dict[str, Any], path: Path) -> Section:
    names = ("AR", "MDLM", "ADLM 262B", "ADLM 524B")
    rows = []
    for name, r in result["sets"].items():
        said = r["paper"] or {}
        theirs = [f"{said[n]:.2f}" if n in said else "" for n in names]
        rows.append(
            [name, f"{sign(r)}{r['ppl']:.2f}{spread(r['se_ppl'])}", f"{r['tokens']:,}", *theirs]
        )
    notes = [f"Skipped {name}: {why}." for name, why in result["skipped"].items()]
    kinds = sorted({over(r) for r in result["sets"].values()})
    notes += [f"± is one standard error over {' or '.join(kinds)}."] if kinds else []
    notes.append("The paper's models were trained on OpenWebText with another vocabulary.")
    header = ["set", "PPL", "tokens scored", *(f"paper: {n}" for n in names)]
    return Section("Zero-shot perplexity", header, rows, notes)


def samples(result: dict[str, Any], path: Path) -> Section:
    rows = []
    for name, r in result["rows"].items():
        mauve = r.get("mauve") or {"mean": None, "sd": None}
        rows.append(
            [
                name,
                number(r.get("generative_ppl")),
                number(r["entropy"]["mean"]),
                number(r["distinct"]["2"], 3),
                number(r["repetition"]["mean"], 3),
                number(mauve["mean"], 3) + spread(mauve["sd"], 3),
            ]
        )
    notes = [f"Judge: {result['judge']}."] if result.get("judge") else []
    notes += [
        r["mauve"]["note"] for r in result["rows"].values() if (r.get("mauve") or {}).get("note")
    ]
    header = ["texts", "generative PPL", "entropy (nats)", "distinct-2", "repetition", "MAUVE"]
    return Section("Samples", header, rows, notes, result.get("examples", []))


def anchors(result: dict[str, Any], path: Path) -> Section:
    rows = [
        [d["damage"], f"{d['dial']:g}", f"{d['anchor_accuracy']:.3f}", f"≤ {d['ppl']:.2f}"]
        for d in result["damage"]
    ]
    lines = []
    for network in dict.fromkeys(r["network"] for r in result["by_ratio"]):
        mine = [r for r in result["by_ratio"] if r["network"] == network]
        accuracy = [r["anchors"]["accuracy"] or 0.0 for r in mine]
        lines.append(Line(network, [r["ratio"] for r in mine], accuracy))
    notes = []
    if result.get("correlation_nll") is not None:
        r = result["correlation_nll"]
        notes = [f"Correlation of anchor accuracy and nats a token over the damages: {r:.2f}."]
    plot = png({"accuracy at masked anchors": lines}, "share masked", "accuracy")
    header = ["damage", "dial", "anchor accuracy", "PPL"]
    return Section("Anchors under the lens", header, rows, notes, [], [("accuracy", plot)])


def efficiency(result: dict[str, Any], path: Path) -> Section:
    rows = [
        [
            f"{c['objective']}, {c['sampler']}",
            "" if c["steps"] is None else str(c["steps"]),
            f"{c['length']} x {c['batch']}",
            f"{1000 * c['seconds_per_text']:.1f}",
            f"{c['nfe']:.1f}",
            f"{c['gflops_per_text']:.2f}",
            mib(c["peak_memory_mib"]),
            number(c.get("generative_ppl")),
            number(c["entropy"]),
        ]
        for c in result["cases"]
    ]
    header = [
        "model",
        "steps",
        "L x batch",
        "ms a text",
        "passes",
        "GFLOP",
        "MiB",
        "gen. PPL",
        "entropy",
    ]
    plots = []
    if all("generative_ppl" in c for c in result["cases"]):
        lines = []
        for run in result["checkpoints"]:
            mine = [c for c in result["cases"] if c["checkpoint"] == run]
            mine.sort(key=lambda c: c["seconds_per_text"])
            points = [c["seconds_per_text"] for c in mine], [c["generative_ppl"] for c in mine]
            lines.append(Line(Path(run).name, *points))
        picture = png(
            {"quality against cost": lines}, "seconds a text", "generative PPL", True, True
        )
        plots.append(("lower and further left is better", picture))
    return Section("What generation costs", header, rows, [], [], plots)


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


def solved(result: dict[str, Any], path: Path) -> Section:
    low, high = (100 * end for end in result["interval"])
    rows = [
        ["right", f"{result['right']} of {result['items']}"],
        ["accuracy, per cent", f"{100 * result['accuracy']:.1f} ({low:.1f} to {high:.1f})"],
        ["tokens generated, slots", f"{result['tokens']:.1f}, {result['slots']:.1f}"],
    ]
    for key, what in (("sound_traces", "sound traces"), ("anchor_recall", "anchors predicted")):
        if result[key] is not None:
            rows.append([what, f"{result[key]:.1%}"])
    settings = result["plan"]["settings"]
    notes = [f"Trained on {settings['data']} items, scored on {Path(result['source']).name}."]
    title = f"Reasoning: {result['method']} on {result['task']} ({result['split']})"
    return Section(title, ["", ""], rows, notes)


def humaneval(result: dict[str, Any], path: Path) -> Section:
    rows = [["tasks", str(result["tasks"])], ["programs a task", str(result["n"])]]
    rows.append(["parse as Python", f"{result['parses']:.1%}"])
    for k, value in result.get("pass_at", {}).items():
        error = None if value["stderr"] is None else 100 * value["stderr"]
        rows.append([f"pass@{k}, per cent", f"{100 * value['mean']:.2f}{spread(error)}"])
    rows += [[name, f"{share:.1%}"] for name, share in result.get("shares", {}).items()]
    cut = f"{result['tasks_cut']} prompts were cut to fit"
    notes = [f"The model's context is {result['context']} tokens; {cut}."]
    if not result["executed"]:
        notes.append("The programs were not run (--allow-code-execution runs them).")
    return Section(f"HumanEval ({result['mode']})", ["", ""], rows, notes)


def unknown(result: dict[str, Any], path: Path) -> Section:
    rows = [[k, str(v)] for k, v in result.items() if isinstance(v, str | int | float)]
    return Section(path.stem, ["field", "value"], rows)


SECTIONS: dict[str, Callable[[dict[str, Any], Path], Section]] = {
    "eval likelihood": likelihood,
    "eval zeroshot": zeroshot,
    "eval samples": samples,
    "eval anchors": anchors,
    "eval efficiency": efficiency,
    "eval humaneval": humaneval,
    "reason eval": solved,
    "study": study,
    "study reasoning": study_reasoning,
}


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def mib(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def spread(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f" ± {value:.{digits}f}"


def png(
    panels: dict[str, list[Line]], x: str, y: str, log_x: bool = False, log_y: bool = False
) -> bytes:
    """A plot as bytes."""
    buffer = io.BytesIO()
    curves(buffer, panels, x, y, log_x, log_y)
    return buffer.getvalue()
