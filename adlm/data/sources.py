"""Where documents come from: a named set, a file or folder, or the hub.

A source is a stream of documents that can be read again, with a fingerprint of its content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from adlm import registry
from adlm.config import DataConfig
from adlm.data import files
from adlm.data.dataset import ALIASES, SPLITS, DataSet, carve
from adlm.data.fingerprint import fingerprint
from adlm.data.hub import from_hub
from adlm.data.records import part_of_pair
from adlm.data.source import Meter, TextSource
from adlm.errors import UserError, nearest, need


def open_source(config: DataConfig, split: str, part: str | None = None) -> TextSource:
    """Open the source that a configuration names; of pairs the `prompt`, `answer` or both."""
    if split not in SPLITS:
        raise UserError(f"there is no split '{split}'{nearest(split, SPLITS)}")
    if config.packing == "pair":
        return _pairs(config, split, part or "both")
    if config.name.startswith("hf:"):
        name, _, part = config.name[3:].partition("@")
        return from_hub(name, part or None, split, config.field, stream=config.stream)
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
        found = registry.shown(declared)
        raise UserError(f"the data set '{name}' must be a DataSet, found {found}")
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
        inner = declared.hub_splits[split]
        return from_hub(*declared.hub, inner, None, declared, config.stream)
    wanted = " or ".join(f"{name}/{file}" for file in declared.files[split])
    raise UserError(
        f"{name} ({split}) was not found: put {wanted} into the folder that --data.dir or "
        "ADLM_DATA names, or pip install 'adlm[data]' to load it from the hub"
    )


def _local(declared: DataSet, path: Path, name: str, split: str) -> TextSource:
    meter = Meter()

    def read() -> Iterator[str]:
        texts = meter.through([path], lambda file: declared.read(file, split))
        return map(declared.detokenize, texts)

    inner = sorted(p for p in path.glob("*") if p.is_file()) if path.is_dir() else [path]
    size = sum(p.stat().st_size for p in inner)
    if not size:
        raise UserError(f"{path} is empty")
    return TextSource(name, split, read, fingerprint(inner, name, split), size, meter)


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

    meter = Meter()

    def read() -> Iterator[str]:
        stream = meter.through(chosen, lambda file: reader(file, field))
        from_train = split == "train" or split in missing
        return carve(split, missing, stream) if from_train else stream

    mark, size = fingerprint(chosen, field, split, *missing), sum(p.stat().st_size for p in chosen)
    lacking = too_few(path, split) if split in missing else ""
    return TextSource(str(path), split, read, mark, size, meter, lacking)


def too_few(path: Path, split: str) -> str:
    """Say why a split that is carved out of the training documents has none."""
    which = {"valid": "ninth", "test": "tenth"}[split]
    return (
        f"{path} has too few documents for a {split} split: without files of its own it is the "
        f"{which} of every ten (of plain text, of about {files.PIECES} pieces cut at line ends); "
        f"give it more lines, or a folder with train.txt and {split}.txt"
    )


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
