"""`adlm theory`."""

from __future__ import annotations

from pathlib import Path

from adlm.errors import UserError
from adlm.theory.summary import measure
from adlm.viz import plots


def theory(out: str = "runs/theory") -> None:
    """Compute the paper's theory exactly: the bound, the worked example, sample complexity, EM.

    Args:
        out: Folder for theory.json and the plots.
    """
    plots.require()
    home = Path(out)
    if home.exists() and not home.is_dir():
        raise UserError(f"--out {home} is a file; it must be a folder")
    result = measure()
    print("\n".join(result.lines()))
    result.save(home / "theory.json")
    result.draw(home)
    print(f"\nwritten to {home / 'theory.json'}, complexity.png and em.png")
