"""The one decorator: an extension axis is a table of names, filled by the files of one folder.

A name `module:name` is code outside the tree. It is imported only if it was allowed, by standing on
the command line or by `allow`: what a stored configuration names is data, and is never executed.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from adlm.errors import UserError, nearest

T = TypeVar("T")

# axis -> the packages whose modules register into it
HOMES: dict[str, str | tuple[str, ...]] = {
    "dataset": "adlm.data.sets",
    "schedule": "adlm.process",
    "times": "adlm.process",
    "weight": "adlm.process",
    "masking": "adlm.process",
    "kernel": "adlm.process",
    "anchors": "adlm.process",
    "objective": "adlm.objectives",
    "sampler": "adlm.samplers",
    "recipe": "adlm.recipes",
    "task": "adlm.reasoning.tasks",
    "method": "adlm.reasoning.methods",
    "foreign": "adlm.models.foreign",
    "result": ("adlm.eval", "adlm.reasoning", "adlm.studies"),
}
_tables: dict[str, dict[str, Any]] = {axis: {} for axis in HOMES}
_allowed: set[str] = set()  # names of code outside the tree
# what a sentence calls them
KINDS = {"anchors": "anchor rule", "dataset": "data set", "foreign": "format"}
OUTSIDE = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


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
    """List all names of an axis."""
    homes = HOMES[axis]
    for package in (homes,) if isinstance(homes, str) else homes:
        home = importlib.import_module(package)
        for module in pkgutil.iter_modules(home.__path__, home.__name__ + "."):
            importlib.import_module(module.name)
    return sorted(_tables[axis])


def lookup(axis: str, name: str) -> Any:
    """Return the object registered under `name`, or raise UserError that suggests the nearest.

    `module:name` is an object outside the tree, if it was allowed.
    """
    known = names(axis)
    if name in known:
        return _tables[axis][name]
    kind = KINDS.get(axis, axis)
    if not outside(axis, name):
        raise UserError(f"there is no {kind} '{name}'{nearest(name, known)}")
    if not at_hand(axis, name):
        raise UserError(
            f"the {kind} '{name}' is code outside adlm, and what a file names is never imported: "
            f"if you trust it, add --use {name} (in Python, adlm.use('{name}'))"
        )
    thing = bring(kind, name)
    check_kind(axis, name, thing)
    return thing


def outside(axis: str, name: str) -> bool:
    """Tell whether a name means code outside the tree; hf:NAME and polynomial:3 do not.

    Example:
        >>> [outside("schedule", n) for n in ("mine:Slow", "polynomial:3", "cosine")]
        [True, False, False]
    """
    head = name.partition(":")[0]
    return bool(OUTSIDE.fullmatch(name)) and head != "hf" and head not in names(axis)


def at_hand(axis: str, name: str) -> bool:
    """Tell whether the object of that name may be used: all but code outside that is not allowed.

    Example:
        >>> at_hand("anchors", "count"), at_hand("anchors", "mine:rule")
        (True, False)
    """
    return name in _allowed or not outside(axis, name)


def allow(*given: str) -> None:
    """Let code outside the tree be imported by its name, `module:name`.

    Example:
        >>> lookup("recipe", "math:floor")
        Traceback (most recent call last):
        adlm.errors.UserError: the recipe 'math:floor' is code outside adlm, and what a file ...
        >>> allow("math:floor")
        >>> lookup("recipe", "math:floor").__name__
        'floor'
        >>> _allowed.clear()
    """
    for name in given:
        if not OUTSIDE.fullmatch(name):
            raise UserError(f"code is named as module:name, found '{name}'")
        _allowed.add(name)


def bring(kind: str, name: str) -> Any:
    """Import `module:name`; a module beside the user is found too."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever a user's module raises
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"the {kind} '{name}' cannot be imported: {reason}") from None


def check_kind(axis: str, name: str, thing: Any) -> None:
    """Raise UserError unless a user's objective or masking is what those of the tree are.

    Other axes look at what they are given where they use it.
    """
    if axis == "objective":
        base = importlib.import_module("adlm.objectives.base").Objective
        if not (isinstance(thing, type) and issubclass(thing, base)):
            raise UserError(f"the objective '{name}' must be an Objective, found {shown(thing)}")
    if axis == "masking":
        taken = list(inspect.signature(_tables[axis]["bernoulli"]).parameters)
        try:
            inspect.signature(thing).bind(*taken)
        except (TypeError, ValueError):
            told = f"a function of {', '.join(taken)}"
            sentence = f"the masking '{name}' must be {told}, found {shown(thing)}"
            raise UserError(sentence) from None


def shown(thing: Any) -> str:
    """Name what a user's name stands for; its contents, as the environment's, are not told."""
    return getattr(thing, "__qualname__", None) or f"a {type(thing).__name__}"


def create(axis: str, spec: str, field: str, right: str, *given: Any) -> Any:
    """Make what 'name' or 'name:number:number' names, of `given` and the numbers.

    `field` and `right` are for the sentence.
    """
    name, *texts = spec.split(":")
    kind = lookup(axis, name)
    try:
        numbers = [float(text) for text in texts]
        if not all(map(math.isfinite, numbers)):
            raise ValueError
        return kind(*given, *numbers)
    except (TypeError, ValueError):
        raise UserError(f"{field} '{spec[:40]}' must be {right}") from None
