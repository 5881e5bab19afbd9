"""Sections of the results that have no class yet; a class registered as "result" comes first.

To be deleted with the two lines of `report.py` that name it, once every command has its class.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adlm.errors import UserError
from adlm.eval.likelihood import sign
from adlm.viz.page import Section
from adlm.viz.plots import Line, png
from adlm.viz.table import mib, number, spread


def likelihood(result: Any, path: Path) -> Section:
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


def over(result: Any) -> str:
    """What a standard error is taken over; files of older versions have it over rows."""
    return result.get("se_over", "rows")


def zeroshot(result: Any, path: Path) -> Section:
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


def samples(result: Any, path: Path) -> Section:
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


def anchors(result: Any, path: Path) -> Section:
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


def efficiency(result: Any, path: Path) -> Section:
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


def solved(result: Any, path: Path) -> Section:
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


def humaneval(result: Any, path: Path) -> Section:
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


SECTIONS: dict[str, Callable[[Any, Path], Section]] = {
    "eval likelihood": likelihood,
    "eval zeroshot": zeroshot,
    "eval samples": samples,
    "eval anchors": anchors,
    "eval efficiency": efficiency,
    "eval humaneval": humaneval,
    "reason eval": solved,
}


def untyped(kind: str, result: Any, path: Path) -> Section:
    """The section of such a result."""
    try:
        return SECTIONS[kind](result, path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is not a result of '{kind}': {error!r}") from None
