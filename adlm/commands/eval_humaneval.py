"""`adlm eval humaneval`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.config import check
from adlm.eval.humaneval import HumanevalSettings, measure
from adlm.eval.programs import open_tasks
from adlm.models import checkpoint


def eval_humaneval(
    checkpoint_or_run: str,
    settings: HumanevalSettings = HumanevalSettings(),
    out: str | None = None,
) -> None:
    """Write HumanEval programs, and run their tests if that is allowed: pass@1, 10 and 100.

    Programs that a model wrote are run only after --allow-code-execution, each in a process of its
    own with limits and without network. Stopped half-way, the same command goes on.

    Args:
        checkpoint_or_run: A checkpoint, or a run (its newest checkpoint is taken).
        settings: How programs are written, and whether they are run.
        out: Result file; eval/humaneval.json (humaneval-infill.json) of the run by default. The
            completions are in a jsonl file beside it.
    """
    check(not (out or "").endswith(".jsonl"), "--out", out, "a .json file (completions are .jsonl)")
    tasks = open_tasks(settings.file, settings.data.dir)
    saved = checkpoint.load(checkpoint_or_run)
    name = "humaneval.json" if settings.mode == "complete" else "humaneval-infill.json"
    output = Output(Path(out) if out else saved.run / "eval" / name)
    store = output.path.with_suffix(".jsonl")
    result = measure(saved, tasks, store, settings)
    output.finish(result, f", the completions to {store.name} beside it")
