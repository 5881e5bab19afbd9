"""Run a grid of configurations over seeds; every finished run is kept and never done again.

A finished run is one whose figures are in the study's folder, or in an earlier result file with the
same configuration: a study that others have published can be gone on with, seed by seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adlm import device as devices
from adlm.config import Config, from_dict, to_dict
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.locks import hold
from adlm.measure import step_rate
from adlm.models.cost import parameters, training_flops
from adlm.progress import console
from adlm.results import stamped, write_json
from adlm.studies import pool, worker
from adlm.studies.pool import Job
from adlm.studies.worker import DRAWS, TEST_ROWS, VALID, VALID_ROWS
from adlm.train.log import read
from adlm.viz.plots import Line, curves, require

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    row: str
    seed: int
    config: Config
    folder: Path

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def done(self) -> bool:
        """Has this very configuration been run to its end?"""
        return pool.finished(self.folder, lambda r: from_dict(r["config"]) == self.config)


@dataclass(frozen=True)
class Study:
    """A question put to several configurations."""

    name: str
    rows: dict[str, Config]
    seeds: dict[str, int]  # row -> number of seeds
    home: Path
    pairs: Pairs = ()  # rows to be compared seed by seed
    shown: tuple[str, ...] = ()  # rows of the picture, at most six; the first six by default
    before: Path | None = None  # an earlier result file, whose runs are not done again
    budget: int = 0  # training tokens of a row, where the rows were made for one number
    only: Sequence[str] = ()  # rows to be run; all by default

    def cells(self) -> list[Cell]:
        """All runs, the first seed of every row before the second of any."""
        out = []
        for seed in range(max(self.seeds.values())):
            for row, config in self.rows.items():
                if seed < self.seeds[row]:
                    seeded = replace(config, train=replace(config.train, seed=seed))
                    label = "".join(c if c.isalnum() else "-" for c in row)
                    out.append(Cell(row, seed, seeded, self.home / f"{label}-seed{seed}"))
        return out

    def tokens(self, config: Config) -> int:
        return config.train.steps * config.train.batch * config.data.length

    def found(self) -> dict[tuple[str, int], Figures]:
        """The figures of all finished runs, by row and seed."""
        known = earlier(self.before, self.rows) if self.before else {}
        here = {(c.row, c.seed): figures(c) for c in self.cells() if c.done}
        return {**known, **here}

    def left(self) -> list[Cell]:
        """The runs still to be done."""
        for name in self.only:
            if name not in self.rows:
                raise UserError(f"the study has no row '{name}'{nearest(name, self.rows)}")
        found = self.found()
        wanted = self.only or self.rows
        return [c for c in self.cells() if c.row in wanted and (c.row, c.seed) not in found]


@dataclass(frozen=True)
class Figures:
    """What is kept of one run."""

    test_ppl: float
    test_se: float
    valid_ppl: float
    exact: bool
    data_hash: str
    tokens: list[int]  # at which the valid split was scored on the way
    valid_nll: list[float]


def figures(cell: Cell) -> Figures:
    """Of a run in the study's folder."""
    test = json.loads(cell.result.read_text(encoding="utf-8"))
    valid = json.loads((cell.folder / VALID).read_text(encoding="utf-8"))
    log = [r for r in read(cell.folder / "metrics.jsonl") if "valid_nll" in r]
    return Figures(
        test["ppl"],
        test["se_ppl"],
        valid["ppl"],
        test["exact"],
        test["data_hash"],
        [r["tokens"] for r in log],
        [r["valid_nll"] for r in log],
    )


def earlier(path: Path, rows: dict[str, Config]) -> dict[tuple[str, int], Figures]:
    """Of the runs in a result file whose configuration is that of the row today."""
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        (row["row"], seed): Figures(**kept)
        for row in stored
        if row["row"] in rows and from_dict(row["config"]) == rows[row["row"]]
        for seed, kept in zip(row["seeds"], row.get("runs", []), strict=False)
    }


def estimate(study: Study, left: list[Cell], threads: int) -> list[float]:
    """Seconds that each of the runs will take, from a real step of each row."""
    kept = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rates = {row: rate(study.rows[row]) for row in {c.row for c in left}}
    finally:
        torch.set_num_threads(kept)
    return [work(study, c) / rates[c.row] for c in left]


def work(study: Study, cell: Cell) -> float:
    """Tokens of a run; a scored token costs about a third of a trained one."""
    cfg = cell.config.train
    scored = cfg.steps // (cfg.eval_every or cfg.steps) * cfg.eval_rows
    scored += (TEST_ROWS + VALID_ROWS) * DRAWS
    return study.tokens(cell.config) + scored * cell.config.data.length / 3


def rate(config: Config) -> float:
    device = devices.pick(config.train.device)
    precision = devices.precision(config.train.precision, device)
    return step_rate(config, open_vocab(config.data), device, precision)


def run(study: Study, workers: int, threads: int = 0) -> dict[str, Any]:
    """Do what is left to do, `workers` runs at a time, then gather everything."""
    threads = pool.shares(workers, threads)
    require()
    with hold(study.home):
        work_off(study, workers, threads)
    return gather(study)


def work_off(study: Study, workers: int, threads: int) -> None:
    """Say what is left and how long it takes, then do it."""
    left = study.left()
    console.print(f"{study.name}: {len(left)} runs to do, {len(study.found())} done")
    if not left:
        return
    jobs = [
        Job(f"{c.row}, seed {c.seed}", c.folder, worker.__name__, [to_dict(c.config)], seconds)
        for c, seconds in zip(left, estimate(study, left, threads), strict=True)
    ]
    pool.foretell(jobs, workers)
    pool.work(jobs, workers, threads)


def gather(study: Study) -> dict[str, Any]:
    """All finished runs as one result."""
    found = study.found()
    vocab = open_vocab(next(iter(study.rows.values())).data)
    rows = []
    for row, config in study.rows.items():
        runs = {seed: found[name, seed] for name, seed in sorted(found) if name == row}
        if not runs:
            continue
        ppl = np.array([r.test_ppl for r in runs.values()])
        rows.append(
            {
                "row": row,
                "parameters": parameters(config, vocab.size),
                "tokens": study.tokens(config),
                "training_flops": study.tokens(config) * training_flops(config, vocab.size),
                "seeds": list(runs),
                "test_ppl": ppl.tolist(),
                "test_ppl_mean": float(ppl.mean()),
                "test_ppl_sd": float(ppl.std(ddof=1)) if len(ppl) > 1 else None,
                "valid_ppl_mean": float(np.mean([r.valid_ppl for r in runs.values()])),
                "exact": next(iter(runs.values())).exact,
                "curve": curve(list(runs.values())),
                "runs": [vars(r) for r in runs.values()],
                "config": to_dict(config),
            }
        )
    if not rows:
        raise UserError(f"no run of the study in {study.home} is done yet")
    result = {"study": study.name, "tokens": study.budget, "rows": rows}
    result |= {"pairs": differences(rows, study.pairs), "shown": list(shown(study, rows))}
    device = devices.pick()
    config = next(iter(study.rows.values()))
    return stamped(result, device, devices.precision(config.train.precision, device))


def differences(rows: list[dict[str, Any]], pairs: Pairs) -> list[dict[str, Any]]:
    """Test PPL of one row less that of another with the same seed."""
    found = {row["row"]: dict(zip(row["seeds"], row["test_ppl"], strict=True)) for row in rows}
    out = []
    for row, other in pairs:
        if row in found and other in found:
            each = [p - found[other][s] for s, p in found[row].items() if s in found[other]]
            out.append({"row": row, "against": other, "test_ppl": each, "ci95": interval(each)})
    return out


# the 97.5 % point of Student's t for n - 1 degrees of freedom
STUDENT = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}


def interval(values: list[float]) -> list[float] | None:
    """95 % interval of the mean of a few independent values; none for fewer than three.

    Example:
        >>> [round(v, 2) for v in interval([1.0, 2.0, 3.0])]
        [-0.48, 4.48]
    """
    if len(values) not in STUDENT:
        return None
    half = STUDENT[len(values)] * np.std(values, ddof=1) / len(values) ** 0.5
    return [float(np.mean(values) - half), float(np.mean(values) + half)]


def curve(runs: list[Figures]) -> dict[str, list[float]]:
    """Validation NLL against tokens: mean and sd over seeds."""
    points = min(len(r.tokens) for r in runs)
    values = np.array([r.valid_nll[:points] for r in runs])  # (seeds, points)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(points)
    return {
        "tokens": [float(n) for n in runs[0].tokens[:points]],
        "valid_nll_mean": values.mean(axis=0).tolist(),
        "valid_nll_sd": spread.tolist(),
    }


def table(result: dict[str, Any]) -> str:
    """Markdown: one line a row."""
    lines = [
        "| model | parameters | tokens | TFLOP | seeds | validation PPL | test PPL (mean ± sd) |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        bound = "" if row["exact"] else "≤ "
        sd = f" ± {row['test_ppl_sd']:.2f}" if row["test_ppl_sd"] is not None else ""
        count, size = len(row["seeds"]), f"{row['parameters']:,}"
        spent = f"{row['tokens'] / 1e6:.1f} M | {row['training_flops'] / 1e12:.0f}"
        figure = f"{bound}{row['test_ppl_mean']:.2f}{sd}"
        valid = f"{bound}{row['valid_ppl_mean']:.2f}"
        lines.append(f"| {row['row']} | {size} | {spent} | {count} | {valid} | {figure} |")
    for pair in result["pairs"]:
        each = ", ".join(f"{d:+.2f}" for d in pair["test_ppl"])
        said = f"{pair['row']} against {pair['against']}, seed by seed: {each} PPL"
        if pair["ci95"]:
            low, high = pair["ci95"]
            said += f"; 95 % interval of their mean: {low:+.2f} to {high:+.2f}"
        lines += ["", f"{said}."]
    return "\n".join(lines)


MOST_LINES = 6  # of a picture that can still be read


def shown(study: Study, rows: list[dict[str, Any]]) -> list[str]:
    """The rows of the picture."""
    names = [row["row"] for row in rows if not study.shown or row["row"] in study.shown]
    return names[:MOST_LINES]


def plot_lines(result: dict[str, Any]) -> Iterator[Line]:
    """Validation PPL against tokens, with a band of one sd over seeds."""
    for row in result["rows"]:
        if row["row"] not in result["shown"]:
            continue
        points = row["curve"]
        mean = points["valid_nll_mean"]
        sd = points["valid_nll_sd"]
        yield Line(
            row["row"],
            points["tokens"],
            [math.exp(m) for m in mean],
            [math.exp(m - s) for m, s in zip(mean, sd, strict=True)],
            [math.exp(m + s) for m, s in zip(mean, sd, strict=True)],
        )


def save(study: Study, result: dict[str, Any], out: Path) -> None:
    """JSON, table and plot, and where they are."""
    write_json(out, result)
    out.with_suffix(".md").write_text(table(result) + "\n", encoding="utf-8")
    lines = list(plot_lines(result))
    curves(out.with_suffix(".png"), {study.name: lines}, "tokens", "validation PPL", log_y=True)
    print(table(result))
    print(f"written to {out}, {out.with_suffix('.md')} and {out.with_suffix('.png')}")
