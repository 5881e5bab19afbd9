"""Run a grid of configurations over seeds; every finished run is kept and never done again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adlm import device as devices
from adlm.config import Config, from_dict, to_dict
from adlm.data.corpus import open_vocab
from adlm.errors import UserError
from adlm.eval.report import over
from adlm.measure import step_rate
from adlm.models.sizes import parameters, training_flops
from adlm.progress import console
from adlm.results import stamped, write_json
from adlm.studies import pool, worker
from adlm.studies.pool import Job
from adlm.studies.worker import DRAWS, TEST_ROWS
from adlm.train.log import read
from adlm.train.run import hold
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


def estimate(study: Study, workers: int, threads: int) -> float:
    """Seconds that the runs still to be done will take, from a real step of each row."""
    left = [c for c in study.cells() if not c.done]
    kept = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rates = {row: rate(study.rows[row]) for row in {c.row for c in left}}
    finally:
        torch.set_num_threads(kept)
    return sum(work(study, c) / rates[c.row] for c in left) / workers


def work(study: Study, cell: Cell) -> float:
    """Tokens of a run; a scored token costs about a third of a trained one."""
    cfg = cell.config.train
    scored = cfg.steps // (cfg.eval_every or cfg.steps) * cfg.eval_rows + TEST_ROWS * DRAWS
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
    left = [c for c in study.cells() if not c.done]
    done = len(study.cells()) - len(left)
    console.print(f"{study.name}: {len(left)} runs to do, {done} done")
    if left:
        pool.foretell(estimate(study, workers, threads))
    jobs = [
        Job(f"{c.row}, seed {c.seed}", c.folder, worker.__name__, [to_dict(c.config)]) for c in left
    ]
    pool.work(jobs, workers, threads)


def gather(study: Study) -> dict[str, Any]:
    """All finished runs as one result."""
    rows = []
    vocab = open_vocab(next(iter(study.rows.values())).data)
    for row, config in study.rows.items():
        cells = [c for c in study.cells() if c.row == row and c.done]
        if not cells:
            continue
        results = [json.loads(c.result.read_text()) for c in cells]
        ppl = np.array([r["ppl"] for r in results])
        rows.append(
            {
                "row": row,
                "parameters": parameters(config, vocab.size),
                "tokens": study.tokens(config),
                "training_flops": study.tokens(config) * training_flops(config, vocab.size),
                "seeds": [c.seed for c in cells],
                "test_ppl": ppl.tolist(),
                "test_ppl_mean": float(ppl.mean()),
                "test_ppl_sd": float(ppl.std(ddof=1)) if len(ppl) > 1 else None,
                "test_se_of_one_run": [r["se_ppl"] for r in results],
                "test_se_over": over(results[0]),
                "exact": results[0]["exact"],
                "curve": curve(cells),
                "config": to_dict(config),
                "data_hash": results[0]["data_hash"],
            }
        )
    if not rows:
        raise UserError(f"no run of the study in {study.home} is done yet")
    result = {"study": study.name, "rows": rows, "pairs": differences(rows, study.pairs)}
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


def curve(cells: list[Cell]) -> dict[str, list[float]]:
    """Validation NLL against tokens: mean and sd over seeds."""
    logs = [[r for r in read(c.folder / "metrics.jsonl") if "valid_nll" in r] for c in cells]
    steps = min(len(log) for log in logs)
    values = np.array([[r["valid_nll"] for r in log[:steps]] for log in logs])  # (seeds, steps)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(steps)
    return {
        "tokens": [r["tokens"] for r in logs[0][:steps]],
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
        valid = f"{bound}{math.exp(row['curve']['valid_nll_mean'][-1]):.2f}"
        lines.append(f"| {row['row']} | {size} | {spent} | {count} | {valid} | {figure} |")
    for pair in result["pairs"]:
        each = ", ".join(f"{d:+.2f}" for d in pair["test_ppl"])
        said = f"{pair['row']} against {pair['against']}, seed by seed: {each} PPL"
        if pair["ci95"]:
            low, high = pair["ci95"]
            said += f"; 95 % interval of their mean: {low:+.2f} to {high:+.2f}"
        lines += ["", f"{said}."]
    return "\n".join(lines)


def plot_lines(result: dict[str, Any]) -> Iterator[Line]:
    """Validation PPL against tokens, with a band of one sd over seeds."""
    for row in result["rows"]:
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
