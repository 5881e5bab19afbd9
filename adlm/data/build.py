"""A token store in the making: parts are finished one by one, and a killed build goes on.

The folder KEY.part holds tokens-00000.bin, tokens-00001.bin, ..., ends.bin and draft.json, which
says what is finished: it is replaced when a part is on the disk. Going on, whatever lies beyond it
is written over, and the documents that are done are read past. Where a part ends depends on the
documents alone, so a store has the same bytes however often it was interrupted. When all is done
meta.json is written and the folder renamed to KEY: a reader sees all of it or nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from adlm.data.encode import Encoded, dtype_of, encode_stream
from adlm.data.source import TextSource
from adlm.data.vocab import Vocab
from adlm.errors import RunStopped, UserError
from adlm.progress import Bar, bytes_of
from adlm.system import sync

PART = 1 << 26  # bytes of text in a part, at the least; what a kill can cost
META, DRAFT = "meta.json", "draft.json"


class Meta(msgspec.Struct, frozen=True):
    """What a store, or as much of it as is finished, holds."""

    dtype: str
    tokens: int = 0  # with the ends of documents
    documents: int = 0
    bytes: int = 0  # of text, in UTF-8
    source: str = ""
    split: str = ""
    parts: tuple[int, ...] = ()  # tokens of each file; older stores have one file and say nothing

    def files(self) -> list[tuple[str, int]]:
        """Return the names of the files of tokens, and how many each has."""
        if not self.parts:
            return [("tokens.bin", self.tokens)]
        return [(part_name(i), count) for i, count in enumerate(self.parts)]

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        part = path.with_suffix(".tmp")
        part.write_bytes(msgspec.json.encode(self))
        sync(part)
        part.replace(path)


def part_name(number: int) -> str:
    return f"tokens-{number:05d}.bin"


def read_meta(path: Path) -> Meta:
    """Read meta.json or draft.json; OSError or ValueError where it cannot be read."""
    return msgspec.json.decode(path.read_bytes(), type=Meta)


def draft_of(home: Path) -> Path:
    """Return the folder in which the store `home` is made."""
    return home.with_name(f"{home.name}.part")


def build(home: Path, source: TextSource, vocab: Vocab, workers: int) -> None:
    """Tokenise as a stream, part by part, and put the result in place in one move."""
    work = draft_of(home)
    try:
        done = fill(work, source, vocab, workers)
        check(done, source)
        done.save(work / META)
        (work / DRAFT).unlink()
        sync(work)
        try:
            work.rename(home)
        except OSError:  # another process was first: its store has the same content
            if not (home / META).is_file():
                raise
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        said = f"the token cache {home.parent} cannot be written: {error}"
        raise UserError(said + keep_finished(work)) from None
    except RunStopped as error:
        raise RunStopped(f"{error}{keep_finished(work)}") from None
    except UserError:  # the data are at fault, and will be others
        shutil.rmtree(work, ignore_errors=True)
        raise


def fill(work: Path, source: TextSource, vocab: Vocab, workers: int) -> Meta:
    """Tokenise what is not done yet."""
    now = take_up(work, Meta(dtype_of(vocab).name, source=source.name, split=source.split))
    rest = islice(source.documents(), now.documents, None)
    title = f"tokenising {source.name} ({source.split})"
    with (
        contextlib.closing(encode_stream(rest, vocab, workers)) as stream,
        Bar(title, source.size, "B", now.bytes) as bar,
    ):
        held: list[tuple[int, Encoded]] = []  # bytes of text, and its ids: of one part
        for texts, encoded in stream:
            held.append((sum(len(text.encode()) for text in texts), encoded))
            size = sum(size for size, _ in held)
            bar.update(source.meter.done or now.bytes + size)
            if size >= PART:
                now, held = add_part(work, now, held), []
        return add_part(work, now, held) if held else now


def take_up(work: Path, fresh: Meta) -> Meta:
    """Return what is finished in a folder; where that is nothing, or not whole, it is emptied."""
    try:
        done = read_meta(work / DRAFT)
        width = np.dtype(fresh.dtype).itemsize
        sizes = [(work / name).stat().st_size for name, _ in done.files()]
        os.truncate(work / "ends.bin", 8 * done.documents)
        if done.dtype == fresh.dtype and sizes == [width * count for count in done.parts]:
            return done
    except (OSError, ValueError):
        pass
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return fresh


def add_part(work: Path, now: Meta, held: list[tuple[int, Encoded]]) -> Meta:
    """Write one part to the disk, then note that it is there."""
    name = work / part_name(len(now.parts))
    with name.open("wb") as tokens:
        for _, encoded in held:
            encoded.ids.tofile(tokens)
    counts = np.concatenate([encoded.counts for _, encoded in held])
    with (work / "ends.bin").open("ab") as ends:
        (now.tokens + np.cumsum(counts)).tofile(ends)
    for path in (name, work / "ends.bin"):
        sync(path)
    done = msgspec.structs.replace(
        now,
        tokens=now.tokens + int(counts.sum()),
        documents=now.documents + len(counts),
        bytes=now.bytes + sum(size for size, _ in held),
        parts=(*now.parts, int(counts.sum())),
    )
    done.save(work / DRAFT)
    return done


def check(done: Meta, source: TextSource) -> None:
    """Raise UserError where nothing was found."""
    name = f"{source.name} ({source.split})"
    if not done.documents:
        raise UserError(source.lacking or f"{name} has no text")
    if done.tokens == done.documents:
        raise UserError(
            f"the tokenizer finds no token in the {done.documents} document(s) of {name}: "
            "is it one for such text?"
        )


def keep_finished(work: Path) -> str:
    """Remove a draft that has no finished part; say where one is kept."""
    with contextlib.suppress(OSError, ValueError):
        done = read_meta(work / DRAFT)
        return f"; {bytes_of(done.bytes)} of text are done and kept, the same command goes on"
    shutil.rmtree(work, ignore_errors=True)
    return ""
