"""`adlm quickstart`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from adlm.commands.likelihood import start as likelihood
from adlm.progress import console
from adlm.recipes import recipe
from adlm.results import write_json
from adlm.train.run import train

RECIPES = ("laptop-ar", "laptop-mdlm")


def start(out: str = "runs/quickstart", steps: int = 0, rows: int = 0) -> int:
    """Train the laptop recipes on the default corpus, score them on its test split, compare.

    Stopped at any moment, the same command goes on where it was.

    Args:
        out: Folder for the runs and results.json.
        steps: Train for so many steps instead of the recipes' own.
        rows: Score at most so many rows of the test split; 0 = all.
    """
    home = Path(out)
    results = {}
    for name in RECIPES:
        config = recipe(name)
        if steps:
            config = replace(config, train=replace(config.train, steps=steps))
        console.print(f"[bold]{name}[/bold]: {home / name}")
        if code := train(config, home / name, resume=True):
            return code
        path = home / name / "eval" / "likelihood-sotu-test.json"
        likelihood(str(home / name), out=str(path), draws=1, limit=rows)
        results[name] = json.loads(path.read_text())
    write_json(home / "results.json", results)
    console.print(table(results))
    print(f"written to {home / 'results.json'}")
    return 0


def table(results: dict) -> Table:
    """Test perplexities side by side."""
    made = Table(title="test split of the default corpus")
    for column in ("recipe", "test PPL", "bits a byte", "tokens scored", "what it is"):
        made.add_column(column, justify="left" if column in ("recipe", "what it is") else "right")
    for name, found in results.items():
        bound = "" if found["exact"] else "≤ "
        error = f" ± {found['se_ppl']:.1f}" if found["se_ppl"] is not None else ""
        made.add_row(
            name,
            f"{bound}{found['ppl']:.1f}{error}",
            f"{found['bits_per_byte']:.3f}",
            f"{found['tokens']:,}",
            found["quantity"],
        )
    return made
