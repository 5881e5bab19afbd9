"""Errors that are the user's to mend: one sentence, no traceback."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from adlm.visible import visible

P = ParamSpec("P")
R = TypeVar("R")


class UserError(Exception):
    """Bad input. The message says what was wrong, what was found and what would be right."""

    exit_code = 2


class RunStopped(UserError):
    """The run itself went wrong (a NaN loss); what was computed so far is kept."""

    exit_code = 1


FEW = 20  # names that are listed where none is like the one that was given


def nearest(word: str, known: Iterable[str], lists: str = "") -> str:
    """Return '; did you mean X?' or the list of what there is; of many names what `lists` them.

    Example:
        >>> nearest("laptop-mdml", ["laptop-ar", "laptop-mdlm"])
        "; did you mean 'laptop-mdlm'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    many = lists and len(names) > FEW
    return (
        f"; {lists} lists the {len(names)} there are" if many else f"; there is {', '.join(names)}"
    )


def need(module: str, extra: str, what: str) -> UserError:
    """Return the error for an optional feature whose extra is not installed."""
    return UserError(f"{what} needs the package '{module}': pip install 'adlm[{extra}]'")


def in_python(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function's sentences name parameters as Python does: `top_k`, not `--draw.top_k`.

    Example:
        >>> @in_python
        ... def refuse(top_k: int) -> None:
        ...     raise UserError(f"--draw.top_k must be 0 or more, found {top_k}")
        >>> refuse(-1)
        Traceback (most recent call last):
        adlm.errors.UserError: top_k must be 0 or more, found -1
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            said = re.sub(r"--(?:draw\.)?(?=[a-z])", "", str(error))
            raise type(error)(said) from None

    return called


@contextmanager
def one_sentence() -> Iterator[None]:
    """End a script on bad input with one sentence and exit code 2, as the commands do."""
    try:
        yield
    except UserError as error:
        print(visible(str(error)), file=sys.stderr)
        raise SystemExit(error.exit_code) from None
