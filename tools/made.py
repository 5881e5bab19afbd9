"""Write down beside the weights of a shipped model what made them: `made.json`.

    python tools/made.py runs/shipped-mdlm adlm/pretrained/mdlm

The command, seed, steps, tokens and minutes of training are those of the run; the commit and date
are those of the model's `results.json`.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from adlm.models import checkpoint
from adlm.train.workload import RunState
from adlm.values import read_plain, to_text


def main() -> None:
    run, home = map(Path, sys.argv[1:3])
    (home / "made.json").write_text(to_text(made(run, home), indent=2) + "\n", encoding="utf-8")


def made(run: Path, home: Path) -> dict[str, Any]:
    """Return what made the weights of a run that is named as its recipe."""
    saved, results = checkpoint.load(run), read_plain(home / "results.json")
    base, state = saved.config.base.name, saved.state(RunState)
    return {
        "command": shlex.join(["adlm", "train", run.name, *(["--base", base] if base else [])]),
        "seed": saved.config.train.seed,
        "steps": state.step,
        "tokens": state.tokens,
        "minutes": round(state.seconds / 60, 1),
        "commit": results["commit"],
        "date": results["date"],
    }


if __name__ == "__main__":
    main()
