"""`adlm eval suite`: every measurement on several runs, and one report of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from adlm.commands.eval_anchors import eval_anchors
from adlm.commands.eval_efficiency import eval_efficiency
from adlm.commands.eval_likelihood import eval_likelihood
from adlm.commands.eval_samples import eval_samples
from adlm.commands.eval_zeroshot import eval_zeroshot
from adlm.commands.report import report
from adlm.config import check
from adlm.errors import UserError
from adlm.eval.anchors import AnchorsSettings
from adlm.eval.efficiency import EfficiencySettings
from adlm.eval.judge import SMALL
from adlm.eval.likelihood import LikelihoodSettings
from adlm.eval.samples import SamplesSettings
from adlm.eval.suite import Part, run
from adlm.eval.zeroshot import SetsPlace, ZeroshotSettings
from adlm.models import checkpoint


def eval_suite(
    runs: list[str],
    out: str = "results",
    data: SetsPlace = SetsPlace(),
    texts: int = 128,
    judge: str = SMALL,
    rows: int = 0,
    grid: list[int] | None = None,
) -> None:
    """Measure runs in every way: likelihood, zero-shot sets, samples, anchors, cost; one report.

    What is there already is not measured again, so a stopped suite goes on. A part that cannot be
    done is said and left out; the others are.

    Args:
        runs: Checkpoints or runs.
        out: Folder for a JSON file of each part, eval-PART-RUN.json, and eval-report.html.
        data: Where the zero-shot sets are.
        texts: Texts that each run writes; in each case of the cost at most 32.
        judge: Judge of the texts: smollm2, a causal LM's folder or hub name, or none.
        rows: Score at most so many rows of the test split and of each set; 0 = all.
        grid: Denoising steps at which the cost is measured; '[8, 32, 128]' by default.
    """
    check(texts >= 2, "--texts", texts, "at least 2")
    saved = {run: checkpoint.load(run) for run in runs}  # are they there?
    names = {run: Path(run).resolve().name for run in runs}
    if len(set(names.values())) < len(runs):
        raise UserError("the runs' folders must have different names")
    plain = next((r for r, s in saved.items() if s.config.objective == "mdlm"), None)
    parts: list[Part] = []
    for place, name in names.items():
        scoring = LikelihoodSettings(limit=rows)
        sets = ZeroshotSettings(data=data, limit=rows)
        writing = SamplesSettings(n=texts, judge=judge)
        looking = AnchorsSettings(plain=plain, judge=judge)
        parts += [
            Part("likelihood", name, partial(eval_likelihood, place, scoring)),
            Part("zeroshot", name, partial(eval_zeroshot, place, sets)),
            Part("samples", name, partial(eval_samples, place, writing)),
        ]
        if saved[place].config.objective == "adlm":
            parts.append(Part("anchors", name, partial(eval_anchors, place, looking)))
    cost = EfficiencySettings(steps=grid, texts=min(32, texts), judge=judge)
    parts.append(Part("efficiency", "all", partial(eval_efficiency, runs, cost)))
    made = run(parts, Path(out))
    report([str(p) for p in made], str(Path(out) / "eval-report.html"), "Measured")
