"""`adlm eval suite`: every measurement on several runs, and one report of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from adlm.commands import efficiency, lens, likelihood, quality, report, zeroshot
from adlm.commands.zeroshot import Place
from adlm.config import check
from adlm.errors import UserError
from adlm.eval.judge import SMALL
from adlm.models import checkpoint
from adlm.progress import console
from adlm.samplers.generate import Settings


def start(
    runs: list[str],
    out: str = "results",
    data: Place = Place(),
    texts: int = 128,
    judge: str = SMALL,
    rows: int = 0,
) -> None:
    """Measure runs in every way: likelihood, zero-shot sets, samples, anchors, cost; one report.

    What is there already is not measured again, so a stopped suite goes on. A part that cannot be
    done is said and left out; the others are.

    Args:
        runs: Checkpoints or runs.
        out: Folder for a JSON file of each part, eval-PART-RUN.json, and eval-report.html.
        data: Where the zero-shot sets are.
        texts: Texts that each run writes.
        judge: Judge of the texts: smollm2, a causal LM's folder or hub name, or none.
        rows: Score at most so many rows of the test split and of each set; 0 = all.
    """
    check(texts >= 2, "--texts", texts, "at least 2")
    home = Path(out)
    saved = {run: checkpoint.load(run) for run in runs}  # are they there?
    names = {run: Path(run).resolve().name for run in runs}
    if len(set(names.values())) < len(runs):
        raise UserError("the runs' folders must have different names")
    plain = next((r for r, s in saved.items() if s.config.objective == "mdlm"), None)
    made: list[Path] = []

    def part(kind: str, name: str, work: Callable[..., object]) -> None:
        path = home / f"eval-{kind}-{name}.json"
        try:
            if not path.is_file():
                console.print(f"{kind} of {name}")
                finish(work, path)
            made.append(path)
        except UserError as error:
            console.print(f"{kind} of {name} left out: {error}", soft_wrap=True)

    for run, name in names.items():
        written = Settings(n=texts)
        part("likelihood", name, partial(likelihood.start, run, limit=rows))
        part("zeroshot", name, partial(zeroshot.start, run, data=data, limit=rows))
        part("samples", name, partial(quality.start, run, written, judge=judge))
        if saved[run].config.objective == "adlm":
            part("anchors", name, partial(lens.start, run, plain, judge=judge))
    part("efficiency", "all", partial(efficiency.start, runs, judge=judge))
    if not made:
        raise UserError("nothing could be measured")
    report.report([str(p) for p in made], str(home / "eval-report.html"), "Measured")


def finish(work: Callable[..., object], path: Path) -> None:
    """Do a part in a folder of its own, where samples outlive a stop; when whole, move it."""
    home = path.parent / ".unfinished" / path.stem
    work(out=str(home / path.name))
    made = [file for file in home.iterdir() if not file.name.startswith(".")]
    for file in sorted(made, key=lambda f: f.name == path.name):  # the result comes last
        file.rename(path.parent / file.name)
    shutil.rmtree(home)
    if not any(home.parent.iterdir()):
        home.parent.rmdir()
