"""Values from outside, from the command line or a file: converted to their type or refused.

`msgspec` converts; the sentence that refuses says what would be right in plain words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from adlm.errors import UserError

Options = Mapping[str, bool | int | float | str]  # of a sampler, a method or a task, by name
PLAIN = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    dict: "names with values, such as {name: 1}",
}
MOST = 60  # characters of a wrong value that a sentence repeats
# of a list on the command line; a comma inside quotes does not end it
ITEM = re.compile(r"""\s*'[^']*'\s*(?=,|$)|(?:"[^"]*"|[^,"]|")+""")
LARGEST = 1 << 28  # bytes of a JSON file that is read: the largest tokenizers have a tenth of it


def check(ok: bool, name: str, value: object, right: str) -> None:
    """Raise UserError on the field `name` unless ok."""
    if not ok:
        raise UserError(f"{name} must be {right}, found {short(value)}")


def check_sizes(config: Any, prefix: str, least: int, **most: int) -> None:
    """Raise UserError unless each field named in `most` is None, or from `least` to that number."""
    for name, limit in most.items():
        if (value := getattr(config, name)) is not None:
            check(value >= least, prefix + name, value, f"at least {least}")
            check(value <= limit, prefix + name, value, f"at most {limit:,}")


def typed(value: Any, kind: Any, name: str, strict: bool = True, found: Any = None) -> Any:
    """Return the value as `kind`, or raise UserError; unless `strict`, '5' may stand for 5.

    `found` is what the sentence shows in place of the value.

    Example:
        >>> typed("5", int | None, "steps", strict=False), typed([0.9, 1], list[float], "betas")
        (5, [0.9, 1.0])
        >>> typed(16.0, int, "model.width")
        Traceback (most recent call last):
        adlm.errors.UserError: model.width must be a whole number, found 16.0
    """
    try:
        made = msgspec.convert(value, kind, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError):  # thousands of digits, too
        made = math.nan
    named = not (isinstance(made, str) and "\0" in made)  # a list of written texts may have one
    check(usable(made) and named, name, value if found is None else found, described(kind))
    return made


def usable(value: Any) -> bool:
    """Tell whether all numbers in a value are finite.

    Example:
        >>> usable({"eta": [0.1, 2]}), usable([math.inf])
        (True, False)
    """
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(usable(item) for pair in value.items() for item in pair)
    return not isinstance(value, list | tuple) or all(map(usable, value))


def read_plain(path: Path) -> Any:
    """Read the plain types of a JSON file, or raise UserError."""
    try:
        return plain(read_small(path), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def read_small(path: Path) -> bytes:
    """Read a file, or raise UserError where it is larger than any JSON file should be."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)  # of a device it would never end
    if len(data) > LARGEST:
        raise UserError(f"{path} is damaged: it has more than {LARGEST:,} bytes")
    return data


def plain(data: bytes, where: str | Path) -> Any:
    """Return the plain types that JSON stands for, or raise UserError; NaN is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{where} is damaged: it is not JSON ({error})") from None


def read_object(path: Path, cls: type) -> Any:
    """Read a dataclass object from a JSON file, or raise UserError."""
    return typed_object(read_plain(path), cls, path)


def typed_object(values: Any, cls: type, where: str | Path) -> Any:
    """Return a dataclass object from plain JSON types, or raise UserError that names the file."""
    check(isinstance(values, dict), str(where), values, "an object")
    try:
        return typed_fields(values, cls)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def typed_fields(values: Any, cls: type, prefix: str = "") -> Any:
    """Return an object of a dataclass from plain JSON types, or raise UserError.

    What is not there has its default; a field is called by its dotted name.
    """
    check(isinstance(values, dict), prefix.rstrip("."), values, "an object")
    if unknown := sorted(set(values) - {f.name for f in fields(cls)}):
        raise UserError(f"it has a field '{prefix}{unknown[0]}' that this version does not know")
    needed = {f.name for f in fields(cls) if f.default is f.default_factory is MISSING}
    if missing := sorted(needed - set(values)):
        raise UserError(f"it lacks the field '{prefix}{missing[0]}'")
    made, kinds = {}, get_type_hints(cls)
    for name, value in values.items():
        if is_dataclass(kind := kinds[name]):
            made[name] = typed_fields(value, kind, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            made[name] = typed(value, kind, prefix + name)
    return cls(**made)


def from_words(words: str | list[str], kind: Any, name: str) -> Any:
    """Return the value that words on the command line stand for, or raise UserError.

    Example:
        >>> from_words("[2, 4]", list[int] | None, "steps"), from_words("null", str | None, "dir")
        ([2, 4], None)
        >>> from_words("{nodes: 10, deep: true}", dict[str, int | bool], "knobs")
        {'nodes': 10, 'deep': True}
        >>> from_words('["a, b", c]', list[str], "only")
        ['a, b', 'c']
    """
    if words == "null" and NoneType in get_args(kind):
        return None
    form = get_origin(bare(kind))
    if form not in (list, tuple, dict):
        return typed(words, kind, name, strict=False)
    items = [words] if isinstance(words, str) else words
    if len(items) == 1 and items[0].strip().startswith(("[", "(", "{")):
        parts = ITEM.findall(items[0].strip()[1:-1])
        items = [unquoted(part) for part in parts if part.strip()]
    if form is not dict or not all(":" in item for item in items):
        return typed(items, kind, name, strict=False, found=words)
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


def to_text(values: Any, indent: int | None = None) -> str:
    """Write JSON; a number that is not finite is null, for NaN is not JSON.

    Example:
        >>> to_text({"loss": math.nan, "steps": [1, 2.5]})
        '{"loss": null, "steps": [1, 2.5]}'
    """
    return json.dumps(finite(values), indent=indent, allow_nan=False)


def finite(values: Any) -> Any:
    """Return plain values with None for each number that is not finite."""
    if isinstance(values, float):
        return values if math.isfinite(values) else None
    if isinstance(values, dict):
        return {key: finite(value) for key, value in values.items()}
    return [finite(v) for v in values] if isinstance(values, list | tuple) else values


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
