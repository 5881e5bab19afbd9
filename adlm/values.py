"""Values from outside, from the command line or a file: converted to their type or refused.

`msgspec` converts; the sentence that refuses says what would be right in plain words.
"""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from adlm.errors import UserError

PLAIN = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    dict: "names with values, such as {name: 1}",
}
MOST = 60  # characters of a wrong value that a sentence repeats


def typed(value: Any, kind: Any, name: str, strict: bool = True) -> Any:
    """Return the value as `kind`, or raise UserError; unless `strict`, '5' may stand for 5.

    Example:
        >>> typed("5", int | None, "steps", strict=False), typed([0.9, 1], list[float], "betas")
        (5, [0.9, 1.0])
        >>> typed(16.0, int, "model.width")
        Traceback (most recent call last):
        adlm.errors.UserError: model.width must be a whole number, found 16.0
    """
    try:
        made = msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError:
        made = math.nan
    items = made if isinstance(made, list | tuple) else [made]
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        raise UserError(f"{name} must be {described(kind)}, found {short(value)}")
    return made


def from_words(words: str | list[str], kind: Any, name: str) -> Any:
    """Return the value that words on the command line stand for, or raise UserError.

    Example:
        >>> from_words("[2, 4]", list[int] | None, "steps"), from_words("null", str | None, "dir")
        ([2, 4], None)
        >>> from_words("{nodes: 10, deep: true}", dict[str, int | bool], "knobs")
        {'nodes': 10, 'deep': True}
    """
    if words == "null" and NoneType in get_args(kind):
        return None
    form = get_origin(bare(kind))
    if form not in (list, tuple, dict):
        return typed(words, kind, name, strict=False)
    items = [words] if isinstance(words, str) else words
    if len(items) == 1 and items[0].strip().startswith(("[", "(", "{")):
        items = [unquoted(part) for part in items[0].strip()[1:-1].split(",") if part.strip()]
    if form is not dict or not all(":" in item for item in items):
        return typed(items, kind, name, strict=False)
    pairs = [item.partition(":") for item in items]
    return typed({unquoted(key): guess(unquoted(value)) for key, _, value in pairs}, kind, name)


def guess(text: str) -> bool | int | float | str:
    """Return the number or truth value that a text looks like, else the text.

    Example:
        >>> [guess(text) for text in ("3", "0.5", "true", "margin")]
        [3, 0.5, True, 'margin']
    """
    for kind in (int, float, bool):
        try:
            return typed(text, kind, "", strict=False)
        except UserError:
            continue
    return text


def unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def bare(kind: Any) -> Any:
    """Return X of X | None.

    Example:
        >>> bare(list[int] | None), bare(int)
        (list[int], <class 'int'>)
    """
    if get_origin(kind) not in (Union, UnionType):
        return kind
    rest = [part for part in get_args(kind) if part is not NoneType]
    return rest[0] if len(rest) == 1 else kind


def described(kind: Any) -> str:
    """Say what a value of a type looks like.

    Example:
        >>> described(Literal["adamw", "muon"]), described(tuple[float, float])
        ("one of 'adamw', 'muon'", 'a list of 2, each a finite number')
    """
    kind = bare(kind)
    form, parts = get_origin(kind), get_args(kind)
    if form is Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if form is list:
        return f"a list, each item {described(parts[0])}"
    if form is tuple:
        return f"a list of {len(parts)}, each {described(parts[0])}"
    return PLAIN.get(form or kind, getattr(kind, "__name__", str(kind)))


def short(value: Any) -> str:
    """Show a value, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= MOST else f"{shown[:MOST]}..."
