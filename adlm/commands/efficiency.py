"""`adlm eval efficiency`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from adlm import device as devices
from adlm.config import check, to_dict
from adlm.eval.efficiency import cases, frontier, in_process, settings_of
from adlm.eval.judge import SMALL, Judge
from adlm.eval.samples import Texts, plain
from adlm.models import checkpoint
from adlm.progress import console
from adlm.results import stamped, write_json
from adlm.viz.plots import Line, curves, require
from adlm.viz.table import mib


def start(
    runs: list[str],
    sampler: str = "ancestral",
    steps: list[int] | None = None,
    lengths: list[int] | None = None,
    batches: list[int] | None = None,
    texts: int = 32,
    nucleus: float = 1.0,
    judge: str = SMALL,
    threads: int = 0,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    out: str = "results/efficiency.json",
) -> None:
    """What inference costs, and the quality reached at each cost.

    Seconds a text, tokens/s, network passes, FLOPs and peak memory of each checkpoint over a grid;
    generative perplexity and entropy of what was written; a Pareto plot.

    Args:
        runs: Checkpoints or runs.
        sampler: Sampler of the diffusion models.
        steps: Denoising steps of the grid, as a list; '[8, 32, 128]' by default.
        lengths: Tokens of a text, as a list; the trained length by default.
        batches: Texts at once, as a list; '[1, 8]' by default.
        texts: Texts written in each case.
        nucleus: Share of the probability that tokens are drawn from.
        judge: Judge of the texts: smollm2, a causal LM's folder or hub name, or none.
        threads: Threads of each case; 0 = all cores.
        seed: Seed.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        out: Result file; a plot (.png) is written beside it.
    """
    grid_steps = [8, 32, 128] if steps is None else steps
    grid_batches = [1, 8] if batches is None else batches
    for name, values in (("--steps", grid_steps), ("--batches", grid_batches)):
        check(bool(values) and min(values) >= 1, name, values, "a list of numbers from 1 on")
    check(texts >= 2, "--texts", texts, "at least 2")
    require()
    judged = None if judge == "none" else Judge(judge, devices.pick(device))
    saved = [checkpoint.load(run) for run in runs]
    where = devices.pick(device)
    how = devices.precision(precision, where)
    grid = cases(
        runs,
        [s.config for s in saved],
        sampler,
        grid_steps,
        lengths or [],
        grid_batches,
        texts=texts,
        nucleus=nucleus,
        seed=seed,
        device=where,
        precision=how,
    )
    path = Path(out)
    result: dict[str, Any] = {
        "command": "eval efficiency",
        "checkpoints": {r: s.hash for r, s in zip(runs, saved, strict=True)},
        "configs": {r: to_dict(s.config) for r, s in zip(runs, saved, strict=True)},
        "judge": judged.about if judged else None,
        "cases": [],
    }
    for number, case in enumerate(grid, 1):
        found = in_process(case, threads)
        written = Texts(found.pop("samples"), found.pop("tokens"), {})
        found["entropy"] = plain(written)["entropy"]["mean"]
        if judged:
            found["generative_ppl"] = judged.score(written.texts).ppl
        result["cases"].append(found)
        console.print(f"{number} of {len(grid)}: {settings_of(found)}")
        write_json(path, stamped(result, where, how))
    show(result["cases"])
    if judged:
        draw(result, path.with_suffix(".png"))
    print(f"written to {path}" + (f" and {path.with_suffix('.png')}" if judged else ""))


def show(found: list[dict[str, Any]]) -> None:
    print("| case | ms a text | tokens/s | passes | GFLOP a text | peak MiB | gen. PPL | entropy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for c in found:
        ppl = f"{c['generative_ppl']:.1f}" if "generative_ppl" in c else ""
        print(
            f"| {settings_of(c)} | {1000 * c['seconds_per_text']:.1f} | {c['tokens_per_s']:,.0f} "
            f"| {c['nfe']:.1f} | {c['gflops_per_text']:.2f} | {mib(c['peak_memory_mib'])} "
            f"| {ppl} | {c['entropy']:.2f} |"
        )


def draw(result: dict[str, Any], path: Path) -> None:
    """Generative perplexity against seconds a text, one line a checkpoint, and the frontier."""
    found = result["cases"]
    lines = []
    for run in result["checkpoints"]:
        mine = sorted(
            (c for c in found if c["checkpoint"] == run), key=lambda c: c["seconds_per_text"]
        )
        x = [c["seconds_per_text"] for c in mine]
        lines.append(Line(f"{mine[0]['objective']}: {run}", x, [c["generative_ppl"] for c in mine]))
    points = [(c["seconds_per_text"], c["generative_ppl"]) for c in found]
    best = frontier(points)
    lines.append(
        Line("Pareto", [points[i][0] for i in best], [points[i][1] for i in best], dashed=True)
    )
    title = {"quality against cost": lines}
    curves(path, title, "seconds a text", "generative PPL", log_x=True, log_y=True)
