"""Data of the hub, through the `datasets` library: copied to this machine, or read as a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from adlm.data import files
from adlm.data.dataset import ALIASES, SPLITS, DataSet, carve
from adlm.data.source import TextSource
from adlm.errors import UserError, need


def from_hub(
    name: str,
    part: str | None,
    split: str,
    field: str | None,
    declared: DataSet | None = None,
    stream: bool = False,
) -> TextSource:
    """Open a split of the hub's data; splits that it lacks are carved out of the training data."""
    missing: list[str] = []
    try:
        if stream:
            parts, mark = _streamed(name, part)
        elif declared is not None:
            parts, mark = {split: _library().load_dataset(name, part, split=split)}, ""
        else:
            parts, mark = _library().load_dataset(name, part), ""
        if declared is not None:
            data = parts[split]
        else:
            own = {s: [k for k in parts if k.startswith(ALIASES[s])] for s in SPLITS}
            if not own["train"]:
                own = {"train": [next(iter(parts))], "valid": [], "test": []}
            missing = [s for s in SPLITS if not own[s]]
            data = parts[(own["train"] if split in missing else own[split])[0]]
    except UserError:
        raise
    except Exception as error:  # network, spelling, access: the library has dozens of types
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"hf:{name} could not be loaded: {first}") from None
    if field is not None and data.column_names and field not in data.column_names:
        raise files.no_field(field, data.column_names, f"hf:{name}")

    def text(record: dict[str, Any]) -> str:
        if declared is not None:
            return declared.hub_text(record)
        return files.text_of(record, str(field), f"hf:{name}")

    def read() -> Iterator[str]:
        texts = (text(record) for record in data)
        if declared is not None:
            return map(declared.detokenize, declared.hub_stream(texts))
        from_train = split == "train" or split in missing
        return carve(split, missing, texts) if from_train else texts

    settings = f"{name} {part} {split} {field} {mark or data._fingerprint}"
    return TextSource(f"hf:{name}", split, read, hashlib.sha256(settings.encode()).hexdigest())


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise need("datasets", "data", "loading hf: data") from None
    return datasets


def _streamed(name: str, part: str | None) -> tuple[Any, str]:
    """Return the splits as streams, and a mark of the files behind them: their versions' hashes."""
    builder = _library().load_dataset_builder(name, part)
    given = builder.config.data_files or {}
    versions = sorted((str(k), [str(f) for f in v], v.origin_metadata) for k, v in given.items())
    return builder.as_streaming_dataset(), f"stream {builder.hash} {versions}"
