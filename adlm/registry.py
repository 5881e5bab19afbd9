"""The one decorator: an extension axis is a table of names, filled by the files of one folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from adlm.errors import UserError, nearest

T = TypeVar("T")

# axis -> the package whose modules register into it
HOMES = {
    "dataset": "adlm.data.sets",
    "schedule": "adlm.process",
    "times": "adlm.process",
    "weight": "adlm.process",
    "masking": "adlm.process",
    "anchors": "adlm.process",
    "objective": "adlm.objectives",
    "sampler": "adlm.samplers",
    "recipe": "adlm.recipes",
    "task": "adlm.reasoning.tasks",
    "method": "adlm.reasoning.methods",
}
_tables: dict[str, dict[str, Any]] = {axis: {} for axis in HOMES}


def register(axis: str, name: str) -> Callable[[T], T]:
    """Enter the decorated object under `name`.

    Example:
        >>> @register("masking", "nothing")
        ... def nothing(x, maskable, noise, mask_id, schedule): ...
        >>> lookup("masking", "nothing") is nothing
        True
        >>> _ = _tables["masking"].pop("nothing")
    """

    def enter(thing: T) -> T:
        if name in _tables[axis]:
            raise ValueError(f"{axis} '{name}' is registered twice")
        _tables[axis][name] = thing
        return thing

    return enter


def names(axis: str) -> list[str]:
    """All names of an axis."""
    home = importlib.import_module(HOMES[axis])
    for module in pkgutil.iter_modules(home.__path__, home.__name__ + "."):
        importlib.import_module(module.name)
    return sorted(_tables[axis])


def lookup(axis: str, name: str) -> Any:
    """The object registered under `name`, or a sentence that suggests the nearest."""
    known = names(axis)
    if name not in known:
        kind = {"anchors": "anchor rule"}.get(axis, axis)
        raise UserError(f"there is no {kind} '{name}'{nearest(name, known)}")
    return _tables[axis][name]


def create(axis: str, spec: str, field: str, right: str) -> Any:
    """Make what 'name' or 'name:number:number' names; `field` and `right` are for the sentence."""
    name, *numbers = spec.split(":")
    kind = lookup(axis, name)
    try:
        return kind(*map(float, numbers))
    except (TypeError, ValueError):
        raise UserError(f"{field} '{spec}' must be {right}") from None
