"""`adlm doctor`."""

from __future__ import annotations

from adlm.doctor import machine, needs
from adlm.errors import UserError
from adlm.recipes import recipe as named


def doctor(recipe: str | None = None, size: str | None = None) -> None:
    """Tell what this machine has, and whether a recipe would run on it.

    Args:
        recipe: Also check what this recipe needs.
        size: pico, nano, micro, tiny, small or medium.
    """
    if size and not recipe:
        raise UserError("--size is that of a recipe: adlm doctor RECIPE --size SIZE")
    config = named(recipe, size) if recipe else None
    for label, value in machine():
        print(f"{label:<18}{value}", flush=True)
    if config is not None:
        print(f"\n{recipe}")
        for label, value in needs(config):
            print(f"{label:<18}{value}", flush=True)
