"""Tokens on disk, made once per content: one flat array and the end of each document.

A store is keyed by the data's content, the tokenizer and the format's version. Rows of any length
and packing are views of it (see `pack`), so block size and packing need no copy of their own.

It is built in a folder of its own and renamed into place: a reader sees all of it or nothing. A
lock keeps a second process from doing the same work; were the lock lost, both would still end
with one whole store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adlm.data.sources import TextSource
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.locks import lock
from adlm.progress import Bar
from adlm.system import sync

VERSION = 1
CHUNK = 1 << 18  # characters handed to the tokenizer at once; part of no result


@dataclass(frozen=True)
class TokenStore:
    """The tokens of one split."""

    tokens: np.ndarray  # (total,) uint16 or uint32, memory-mapped; each document ends with EOS
    ends: np.ndarray  # (documents,) int64, exclusive end of each document
    text_bytes: int  # UTF-8 bytes of the documents
    key: str


def folder() -> Path:
    """Return where stores lie: ADLM_CACHE, or the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "adlm"
    return Path(os.environ.get("ADLM_CACHE", default)).expanduser()


def load(source: TextSource, vocab: Vocab, workers: int = 0) -> TokenStore:
    """Return the source's tokens, from disk where they have been made before."""
    parts = f"{VERSION} {source.fingerprint} {vocab.hash}"
    key = hashlib.sha256(parts.encode()).hexdigest()[:32]
    home = folder() / "tokens" / key
    with locked(home):
        if not (home / "meta.json").is_file():
            build(home, source, vocab, workers)
    try:
        meta = json.loads((home / "meta.json").read_text(encoding="utf-8"))
        tokens = np.memmap(home / "tokens.bin", dtype=meta["dtype"], mode="r")
        ends = np.fromfile(home / "ends.bin", dtype=np.int64)
        whole = len(tokens) == meta["tokens"] and len(ends) == meta["documents"]
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise UserError(f"the token cache {home} is damaged; delete that folder and try again")
    return TokenStore(tokens, ends, meta["bytes"], key)


def build(home: Path, source: TextSource, vocab: Vocab, workers: int) -> None:
    """Tokenise as a stream and put the result in place in one move."""
    for left in home.parent.glob(f"{home.name}.*.tmp"):  # of a killed process: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    work = home.with_name(f"{home.name}.{uuid.uuid4().hex}.tmp")
    work.mkdir(parents=True)
    dtype = np.uint16 if vocab.size <= 1 << 16 else np.uint32
    documents = total = text_bytes = 0
    try:
        with (
            (work / "tokens.bin").open("wb") as tokens,
            (work / "ends.bin").open("wb") as ends,
            Bar(f"tokenising {source.name} ({source.split})", source.size, "B") as bar,
        ):
            for texts, encoded in encode_stream(source.documents(), vocab, workers):
                for text, ids in zip(texts, encoded, strict=True):
                    np.append(ids, vocab.eos).astype(dtype).tofile(tokens)
                    total += len(ids) + 1
                    documents += 1
                    text_bytes += len(text.encode())
                    np.array([total], dtype=np.int64).tofile(ends)
                bar.update(text_bytes)
        if not total:
            raise UserError(f"{source.name} ({source.split}) has no text")
        meta = {
            "tokens": total,
            "documents": documents,
            "bytes": text_bytes,
            "dtype": np.dtype(dtype).name,
            "source": source.name,
            "split": source.split,
        }
        (work / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        for path in work.iterdir():
            sync(path)
        try:
            work.rename(home)
        except OSError:  # another process was first: its store has the same content
            if not (home / "meta.json").is_file():
                raise
    except OSError as error:
        raise UserError(f"the token cache {home.parent} cannot be written: {error}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def encode_stream(
    documents: Iterator[str], vocab: Vocab, workers: int
) -> Iterator[tuple[list[str], list[np.ndarray]]]:
    """Yield documents and their ids in the documents' order, encoded by several threads.

    Which documents share a call depends on the documents alone, never on the number of workers.
    """
    count = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(count) as pool:
        waiting: list[tuple[list[str], Future[list[np.ndarray]]]] = []
        for texts in chunks(documents):
            waiting.append((texts, pool.submit(vocab.encode, texts)))
            if len(waiting) > 2 * count:
                texts, future = waiting.pop(0)
                yield texts, future.result()
        for texts, future in waiting:
            yield texts, future.result()


def chunks(documents: Iterator[str]) -> Iterator[list[str]]:
    """Yield lists of documents with about CHUNK characters."""
    held: list[str] = []
    size = 0
    for text in documents:
        held.append(text)
        size += len(text)
        if size >= CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


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
