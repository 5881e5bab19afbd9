"""Tokens on disk, made once per content: flat arrays and the end of each document.

A store is keyed by the data's content, the tokenizer and the format's version. Rows of any length
and packing are views of it (see `pack`), so block size and packing need no copy of their own.

A store that is there is whole, and read without a lock: a cache that cannot be written serves what
it has. A lock keeps a second process from making what is being made; `build` says how.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adlm.data.build import META, build, read_meta
from adlm.data.home import folder
from adlm.data.parts import Parts
from adlm.data.source import TextSource
from adlm.data.tidy import keep_limit, sweep
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.locks import lock

VERSION = 1  # of keys: a run knows its data by them


@dataclass(frozen=True)
class TokenStore:
    """The tokens of one split."""

    tokens: np.ndarray | Parts  # (total,) uint16 or uint32, in files; each document ends with EOS
    ends: np.ndarray  # (documents,) int64, exclusive end of each document
    text_bytes: int  # UTF-8 bytes of the documents
    key: str


def load(source: TextSource, vocab: Vocab, workers: int = 0) -> TokenStore:
    """Return the source's tokens, from disk where they have been made before."""
    parts = f"{VERSION} {source.fingerprint} {vocab.hash}"
    key = hashlib.sha256(parts.encode()).hexdigest()[:32]
    home = folder() / "tokens" / key
    if not (home / META).is_file():
        with locked(home):
            sweep(home)
            if not (home / META).is_file():
                build(home, source, vocab, workers)
                keep_limit(home)
    return read(home)


def read(home: Path) -> TokenStore:
    """Open a store; its files are mapped, not read."""
    try:
        meta = read_meta(home / META)
        files = [np.memmap(home / name, meta.dtype, mode="r") for name, _ in meta.files()]
        ends = np.memmap(home / "ends.bin", np.int64, mode="r")
        whole = [len(f) for f in files] == [count for _, count in meta.files()]
        whole = whole and len(ends) == meta.documents
    except (OSError, ValueError, TypeError):
        whole = False
    if not whole:
        raise UserError(f"the token cache {home} is damaged; delete that folder and try again")
    with contextlib.suppress(OSError):
        os.utime(home / META)  # when it was last used
    tokens = files[0] if len(files) == 1 else Parts(files)
    return TokenStore(tokens, ends, meta.bytes, home.name)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the lock beside `home`; the system drops it when a process dies."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        held = lock(home.with_suffix(".lock"))
    except OSError as error:
        raise UserError(f"the cache folder cannot be written: {error}; set ADLM_CACHE") from None
    with held:
        yield
