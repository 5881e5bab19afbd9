"""The quickstart with its corpus but two small models: seconds instead of a minute.

python -m tests.commands.small_quickstart --out runs/q --steps 3
"""

from __future__ import annotations

import sys
from dataclasses import replace

from adlm.cli import main
from adlm.config import Config
from adlm.recipes import recipe
from adlm.studies import quickstart


def small(name: str) -> Config:
    """A recipe at a width and batch that take no time; the rest is its own."""
    config = recipe(name)
    return replace(
        config,
        model=replace(config.model, width=32, heads=2),
        train=replace(config.train, batch=4, eval_rows=4),
    )


if __name__ == "__main__":
    quickstart.recipe = small  # type: ignore[assignment]
    quickstart.RECIPES = ("laptop-mdlm", "laptop-adlm")  # type: ignore[assignment]
    sys.exit(main(["quickstart", *sys.argv[1:]]))
