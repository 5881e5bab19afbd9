"""Documents in files: txt, jsonl, json, csv, parquet. Everything streams; nothing is held whole."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from adlm.errors import UserError, need

FORMATS = (".txt", ".jsonl", ".csv", ".parquet")
PIECE = 1 << 16  # a longer plain-text file is read as several documents of about this many bytes
PIECES = 40  # a shorter one as about so many, so that each split gets some


def open_text(path: Path) -> IO[str]:
    """Open a text file, plain or gzipped, as UTF-8."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without their ends; raise UserError where it is no text."""
    with open_text(path) as file:
        try:
            for line in file:
                if "\0" in line:
                    raise UserError(f"{path} is not a text file: it has NUL bytes")
                yield line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text ({error.reason})") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{path} is not a whole gzip file ({error})") from None


def pieces(path: Path) -> Iterator[str]:
    """Yield a plain-text file as documents, cut at line ends by their size alone."""
    limit = min(PIECE, max(1, path.stat().st_size // PIECES))
    held: list[str] = []
    size = 0
    for line in lines(path):
        held.append(line)
        size += len(line.encode()) + 1
        if size >= limit:
            yield "\n".join(held)
            held, size = [], 0
    if held:
        yield "\n".join(held)


def jsonl(path: Path, field: str = "text") -> Iterator[str]:
    """Yield the text field of each line; a list of sentences is joined by spaces."""
    return (text_of(record, field, where) for where, record in json_records(path))


def json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield file and line, and what the line holds."""
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            try:
                yield f"{path} line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path} line {number} is not JSON ({error})") from None


def csv_rows(path: Path, field: str = "text") -> Iterator[str]:
    """Yield the text column of a csv file with a header line."""
    return (text_of(record, field, where) for where, record in csv_records(path))


def csv_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield file and line, and the line's columns by their names."""
    csv.field_size_limit(1 << 30)
    reader = csv.DictReader(line + "\n" for line in lines(path))
    return ((f"{path} line {number}", record) for number, record in enumerate(reader, 2))


def records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield file and line, and the record of each line of a jsonl or csv file."""
    readers = {".jsonl": json_records, ".csv": csv_records}
    if kind(path) not in readers:
        raise UserError(f"{path} must be a jsonl or csv file to have prompts")
    return readers[kind(path)](path)


def parquet(path: Path, field: str = "text") -> Iterator[str]:
    """Yield the text column of a parquet file, batch by batch."""
    try:
        import pyarrow
        import pyarrow.parquet as pq
    except ImportError:
        raise need("pyarrow", "data", "reading parquet") from None
    try:
        file = pq.ParquetFile(path)
    except Exception as error:
        raise UserError(f"{path} is not a parquet file ({error})") from None
    if field not in file.schema_arrow.names:
        raise no_field(field, file.schema_arrow.names, str(path))
    try:
        for batch in file.iter_batches(columns=[field], batch_size=1024):
            yield from (str(v) for v in batch.column(0).to_pylist() if v is not None)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({error})") from None


def text_of(record: object, field: str, where: str) -> str:
    """Return the text field of a record, or raise UserError."""
    if not isinstance(record, dict):
        raise UserError(f"{where} is not an object with a field '{field}'")
    if record.get(field) is None:
        raise no_field(field, [str(k) for k in record], where)
    value = record[field]
    return " ".join(str(v) for v in value) if isinstance(value, list) else str(value)


def no_field(field: str, fields: list[str], where: str) -> UserError:
    found = ", ".join(fields[:8])
    pairs = {"prompt", "messages"} & set(fields)
    how = "prompts and answers: --data.packing pair" if pairs else "name it: --data.field"
    return UserError(f"{where} has no text field '{field}' (it has {found}); {how}")


def read(path: Path, field: str = "text") -> Iterator[str]:
    """Read the documents of one file, by its ending; unknown endings are plain text."""
    by_kind = {".jsonl": jsonl, ".csv": csv_rows, ".parquet": parquet}
    reader = by_kind.get(kind(path))
    return reader(path, field) if reader else pieces(path)


def kind(path: Path) -> str:
    """Return a file's ending, without that of gzip."""
    return path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
