"""The small models that come with the package: used where no checkpoint is named.

They lie in `adlm/pretrained/`, as `adlm export --bits 16` wrote them; `make pretrained` makes them,
and `made.json` beside each says by which command and with which seed.
"""

from __future__ import annotations

from pathlib import Path

from adlm.errors import UserError
from adlm.models.manifest import MANIFEST
from adlm.progress import console

HOME = Path(__file__).parents[1] / "pretrained"
WRITES, FILLS = "bd3lm", "mdlm"  # the one that writes best, and the one that sees both sides
SALUTE = "My fellow Americans:"  # as an address may begin; rows are cut out of the midst of them
MISSING = UserError("name a checkpoint or run: this copy of adlm came without its small models")


def names() -> list[str]:
    """List the shipped models."""
    return sorted(path.parent.name for path in HOME.glob(f"*/{MANIFEST}"))


def named(name: str) -> Path | None:
    """Return the folder of a shipped model, or None where there is none of that name.

    Example:
        >>> named("no such model") is None
        True
    """
    return HOME / name if name in names() else None


def instead(checkpoint: str | None, usual: str) -> str:
    """Return the checkpoint that a user named, or the folder of a shipped model, and say so."""
    if checkpoint is not None:
        return checkpoint
    if usual not in names():
        raise MISSING
    console.print(f"no checkpoint is named: this is '{usual}', a small model shipped with adlm")
    return str(HOME / usual)


def every() -> list[str]:
    """Return the folders of all shipped models, and say so."""
    if not (found := names()):
        raise MISSING
    console.print(f"no checkpoint is named: {', '.join(found)} are small models shipped with adlm")
    return [str(HOME / name) for name in found]
