"""One page of everything that was measured: a section for each result, from its JSON file alone.

A file names its command, the registry knows the class of that command's results, and the class
reads the file and makes the section. What no class knows is shown as it is; what is damaged is left
out, and the page says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec

from adlm.errors import UserError
from adlm.progress import console
from adlm.registry import lookup, names
from adlm.results import Json, Result, read_json
from adlm.train.log import read
from adlm.viz.page import Section
from adlm.viz.plots import Line, png

DETAILS = (
    "config", "configs", "seed", "data_hash", "checkpoint", "checkpoints", "checkpoint_hash",
    "tokenizer_hash", "tokens", "draws", "sampling", "judge", "features", "machine", "device",
    "precision",
)  # fmt: skip


def gather(paths: list[Path]) -> list[Section]:
    """Return sections of runs and result files; the last one says what was left out."""
    shown: list[Section] = []
    damaged: list[UserError] = []
    for path in sorted(paths, key=place):
        if not path.exists():
            raise UserError(f"{path} cannot be read: there is no such file or folder")
        for part in parts(path):
            try:
                shown.append(training(part) if part.is_dir() else of_file(part))
            except UserError as error:
                damaged.append(error)
            except OSError as error:
                damaged.append(UserError(f"{part} cannot be read: {error.strerror}"))
    if damaged and not shown:
        raise damaged[0]
    for why in damaged:
        console.print(f"left out: {why}", soft_wrap=True, markup=False)
    left_out = [Section("Left out", notes=[f"{why}." for why in damaged])]
    return shown + (left_out if damaged else [])


def parts(path: Path) -> list[Path]:
    """Return a result file itself, or a run and the files in its eval/."""
    if not path.is_dir():
        return [path]
    files = sorted((path / "eval").glob("*.json"), key=lambda file: (place(file), file.name))
    trained = (path / "metrics.jsonl").is_file()
    if not trained and not files:
        raise UserError(f"{path} is neither a run nor a result: it has no metrics.jsonl")
    return [path, *files] if trained else files


def place(path: Path) -> int:
    """Return where a file comes on the page: figures first, what is looked at closely last.

    Example:
        >>> files = Path("eval-anchors-x.json"), Path("runs/x"), Path("study-y.json")
        >>> [path.stem for path in sorted(files, key=place)]
        ['x', 'study-y', 'eval-anchors-x']
    """
    order = ("quickstart", "study", "likelihood", "zeroshot", "samples", "reason", "efficiency")
    name = path.stem.removeprefix("eval-")
    kinds = [i for i, kind in enumerate((*order, "anchors")) if name.startswith(kind)]
    if path.suffix != ".json":
        return 0  # a run, which begins with its training
    return kinds[0] if kinds else len(order) - 1


def of_file(path: Path) -> Section:
    """Return the section of a result file; where no class knows it, with the fields alone."""
    values = read_json(path)
    if result := result_of(values, path):
        made = section(result, path)
    else:
        rows = [[k, str(v)] for k, v in values.items() if isinstance(v, str | int | float)]
        made = Section(path.stem, ["field", "value"], rows)
    name = path.stem.removeprefix("eval-")
    if path.stem.startswith("eval-") and name not in made.title:  # which run's, among several
        made.title += f" ({name})"
    made.details = made.details or {k: v for k, v in values.items() if k in DETAILS}
    return made


def result_of(values: Json, path: Path) -> Result | None:
    """Return the result of the class that its command has; None where there is no such class."""
    kind = values.get("command")
    if "command" not in values and "study" in values:  # a study's of an older version
        kind = "study reasoning" if values["study"] == "reasoning" else "study"
    known = isinstance(kind, str) and kind in names("result")
    return lookup("result", str(kind)).from_json(values, path) if known else None


def section(result: Result, path: Path) -> Section:
    """Return the section that a result makes of itself."""
    try:
        return result.section(path.stem)
    except (ArithmeticError, LookupError, ValueError) as error:  # right types, absurd values
        raise UserError(f"{path} cannot be shown: {error!r}") from None


@dataclass(frozen=True)
class Metric:
    """What the page needs of one line of a run's metrics.jsonl."""

    step: int
    tokens: int = 0
    loss: float | None = None
    valid_nll: float | None = None


def training(run: Path) -> Section:
    """Loss curves of a run, and how far it is."""
    try:
        records = msgspec.convert(read(run / "metrics.jsonl"), list[Metric])
    except msgspec.ValidationError as error:
        raise UserError(f"{run / 'metrics.jsonl'} is damaged: {error}") from None
    if not records:
        raise UserError(f"{run / 'metrics.jsonl'} is damaged: it has no whole line")
    config = read_json(run / "config.json") if (run / "config.json").is_file() else {}
    lines = [
        Line(label, [r.tokens for r, _ in points], [value for _, value in points])
        for label, key in (("training", "loss"), ("validation", "valid_nll"))
        if (points := [(r, v) for r in records if (v := getattr(r, key)) is not None])
    ]
    last, train = records[-1], config.get("train")
    wanted = train.get("steps") if isinstance(train, dict) else None
    unfinished = isinstance(wanted, int) and last.step < wanted
    rest = f" of {wanted:,}: the run is not finished" if unfinished else ""
    scored = [r.valid_nll for r in records if r.valid_nll is not None]
    ends = f", validation perplexity {math.exp(min(scored[-1], 700.0)):.1f}" if scored else ""
    return Section(
        f"Training: {run.name}",
        notes=[f"{last.tokens:,} tokens in {last.step:,} steps{ends}{rest}."],
        plots=[("nats a token", png({run.name: lines}, "tokens", "nats a token"))] if lines else [],
        details=config,
    )
