"""A tokenizer.json from anywhere: looked at before the library sees it, which may abort.

The library trusts what it reads: an id beyond 32 bits ends the process, and some errors come as a
panic, which is no Exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from adlm.errors import UserError
from adlm.values import check, read_plain

IDS = 1 << 24  # ids; the largest vocabularies have a sixteenth of it


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.json, or raise UserError."""
    if not path.is_file():
        raise UserError(f"there is no tokenizer file {path}")
    values = read_plain(path)
    check(isinstance(values, dict), str(path), values, "an object")
    for name, number in ids(values):
        good = type(number) is int and 0 <= number < IDS
        check(good, f"{path}: the id of {name!r}", number, f"a whole number from 0 to {IDS - 1:,}")
    with no_panic(f"{path} is not a tokenizer.json"):
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        if not tokenizer.get_vocab(with_added_tokens=True):
            raise ValueError("it has no tokens")
    tokenizer.encode_special_tokens = True
    return tokenizer


def ids(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each token of a tokenizer.json with its id, whatever kinds they are of."""
    model, added = values.get("model"), values.get("added_tokens")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        yield from vocab.items()
    elif isinstance(vocab, list) and len(vocab) > IDS:
        yield "the last token", len(vocab)
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict):
            yield str(token.get("content")), token.get("id")


@contextmanager
def no_panic(what: str) -> Iterator[None]:
    """Inside, whatever the library raises, a panic too, is a UserError that begins with `what`."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{what} ({' '.join(str(error).split())[:200]})") from None
