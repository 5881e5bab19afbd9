"""One checkpoint format: a folder of safetensors, JSON and tokenizer.json; no pickle.

    config.json  tokenizer.json  vocab.json  model.safetensors      what evaluation needs
    lengths.json                                                    how long training rows are
    train.safetensors  state.json                                   what resuming needs besides
    manifest.json                                                   size and sha256 of each file

Sharded training has shard-N-*.safetensors instead of both tensor files (see `parts.py`), which are
put together when they are read.

A checkpoint is written to a hidden folder and renamed: after a crash it is there whole or not at
all. Reading checks the manifest, so a damaged or foreign file is found before it is used.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adlm.config import Config, from_dict, to_dict
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models import parts
from adlm.models.manifest import MANIFEST, Manifest
from adlm.system import sync
from adlm.values import read_object, read_plain

State = TypeVar("State")
SETTINGS = ("config.json", "tokenizer.json", "vocab.json")
NEEDED = (*SETTINGS, "model.safetensors")
FILES = (*NEEDED, "lengths.json", "source.json", MANIFEST)  # what use needs, without training's
COUNTS = "table_"  # how the names of the corpus's counts begin, beside the weights


@dataclass(frozen=True)
class Checkpoint:
    """A checked checkpoint folder."""

    path: Path
    config: Config
    vocab: Vocab
    hash: str  # of model.safetensors
    parts: tuple[str, ...] = ()  # files of a sharded training, instead of it

    @property
    def run(self) -> Path:
        """The run's folder, or the checkpoint's own where it stands alone."""
        return self.path.parent.parent if self.path.parent.name == "checkpoints" else self.path

    @property
    def step(self) -> int | None:
        """The step of the run at which it was saved; None where it stands alone."""
        number = self.path.name.removeprefix("step-")
        return int(number) if self.run != self.path and number.isdigit() else None

    def weights(self) -> dict[str, Tensor]:
        """Return the (averaged) weights of the network."""
        if self.parts:
            return self._of_parts("ema.") or self._of_parts("weights.")
        return _without_counts(_tensors(self.path / "model.safetensors"))

    def counts(self) -> CorpusCounts | None:
        """Return how often tokens occur in the training corpus, where the anchor rule reads it."""
        if self.parts:
            tensors = parts.read(self.path, self.parts, COUNTS)
        else:
            tensors = _tensors(self.path / "model.safetensors", COUNTS)
        names = [COUNTS + name for name in ("tokens", "rows", "total")]
        if not tensors:
            return None
        shapes = [(self.vocab.size,), (self.vocab.size,), ()]
        for name, shape in zip(names, shapes, strict=True):
            if name not in tensors or tuple(tensors[name].shape) != shape:
                raise UserError(f"{self.path}: the tensor {name} must have shape {shape}")
        return CorpusCounts(*(tensors[name].double() for name in names))

    def lengths(self) -> Lengths:
        """Return how long the training's rows are; older checkpoints do not say it."""
        path, most = self.path / "lengths.json", self.config.data.length
        if not path.is_file():
            return Lengths.unknown(most)
        try:
            counts = read_plain(path)
        except UserError:
            counts = None
        good = isinstance(counts, list) and len(counts) == most
        if not (good and all(type(c) is int and 0 <= c < 2**53 for c in counts)):
            raise UserError(f"{path} must be a list of {most} counts, one for each length of a row")
        return Lengths(np.array(counts, dtype=np.int64))

    def training(self) -> dict[str, Tensor]:
        """Return the tensors that resuming needs, whole."""
        if self.parts:
            return _without_counts(parts.read(self.path, self.parts))
        return _without_counts(_tensors(self._kept("train.safetensors")))

    def state(self, kind: type[State]) -> State:
        """Return how far the training was: an object of the dataclass that was saved."""
        return read_object(self._kept("state.json"), kind)

    def _of_parts(self, prefix: str) -> dict[str, Tensor]:
        found = parts.read(self.path, self.parts, prefix)
        return {name.removeprefix(prefix): tensor for name, tensor in found.items()}

    def _kept(self, name: str) -> Path:
        if not (self.path / name).is_file():
            raise UserError(f"{self.path} was exported for use only: it cannot be resumed")
        return self.path / name


def save(
    run: Path,
    step: int,
    config: Config,
    vocab: Vocab,
    weights: dict[str, Tensor],
    training: dict[str, Tensor],
    state: object,
    keep: int,
    lengths: Lengths | None = None,
    counts: CorpusCounts | None = None,
) -> Path:
    """Write checkpoints/step-N of a run and drop all but the `keep` newest.

    `state` is a dataclass object that says how far the training is.
    """
    home = run / "checkpoints"
    final = home / f"step-{step:08d}"
    if (final / MANIFEST).is_file():
        return final
    with whole(final) as work:
        write(work, config, vocab, weights, lengths, counts)
        save_file(_plain(training), work / "train.safetensors")
        write_state(work, state)
    drop(run, keep)
    return final


def drop(run: Path, keep: int) -> None:
    """Remove all checkpoints of a run but the newest ones."""
    for old in steps(run)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def write(
    work: Path,
    config: Config,
    vocab: Vocab,
    weights: dict[str, Tensor],
    lengths: Lengths | None = None,
    counts: CorpusCounts | None = None,
) -> None:
    """Write what evaluation needs into a folder."""
    write_settings(work, config, vocab, lengths)
    write_tensors(work, weights, counts)


def write_settings(
    work: Path, config: Config, vocab: Vocab, lengths: Lengths | None = None
) -> None:
    """Write all of that but the tensors."""
    (work / "config.json").write_text(json.dumps(to_dict(config), indent=2), encoding="utf-8")
    vocab.save(work)
    if lengths is not None:
        text = json.dumps(lengths.counts.tolist())
        (work / "lengths.json").write_text(text, encoding="utf-8")


def write_state(work: Path, state: object) -> None:
    """Write how far the training is, a dataclass object."""
    (work / "state.json").write_text(json.dumps(to_dict(state)), encoding="utf-8")


def write_tensors(
    work: Path,
    weights: dict[str, Tensor],
    counts: CorpusCounts | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write model.safetensors: the weights, and beside them the corpus's counts."""
    save_file(_plain(weights | named_counts(counts)), work / "model.safetensors", metadata)


def named_counts(counts: CorpusCounts | None) -> dict[str, Tensor]:
    """Return the corpus's counts under the names that they have in files."""
    return {COUNTS + name: tensor for name, tensor in vars(counts).items()} if counts else {}


@contextmanager
def whole(final: Path, unlisted: Collection[str] = ()) -> Iterator[Path]:
    """Make a hidden folder; once filled it gets its manifest and the name `final`.

    The manifest lists all files but the `unlisted`, which others may change.
    """
    work = final.parent / f".{final.name}.{uuid.uuid4().hex}.tmp"
    try:
        work.mkdir(parents=True)
        yield work
        seal(work, final, unlisted)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"the checkpoint {final} could not be written ({error}); earlier ones are untouched"
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def seal(work: Path, final: Path, unlisted: Collection[str] = ()) -> None:
    """Give a filled folder its manifest and, in one move, its name."""
    Manifest.of(work, unlisted).write(work)
    for path in work.iterdir():
        sync(path)
    if final.exists():  # an incomplete folder of that name from elsewhere
        shutil.rmtree(final)
    work.rename(final)
    sync(final.parent)


def steps(run: Path) -> list[Path]:
    """Return the whole checkpoints of a run, oldest first."""
    found = (run / "checkpoints").glob("step-*")
    return sorted(p for p in found if (p / MANIFEST).is_file())


def sweep(run: Path) -> None:
    """Remove what a killed process left half-written."""
    for left in (run / "checkpoints").glob(".step-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


def find(path: str | Path) -> Path:
    """Return the checkpoint folder that a path means: itself, or the newest of a run."""
    path = Path(path).expanduser()
    if (path / MANIFEST).is_file():
        return path
    if not path.exists():
        raise UserError(f"there is no checkpoint or run {path}")
    found = steps(path)
    if not found:
        raise UserError(f"{path} holds neither a checkpoint ({MANIFEST}) nor a run with one")
    return found[-1]


def load(path: str | Path) -> Checkpoint:
    """Find and check a checkpoint."""
    folder = find(path)
    files = Manifest.read(folder).files
    own = parts.among(files)
    for name in SETTINGS if own else NEEDED:
        if name not in files:
            raise UserError(f"{folder} is not a checkpoint of adlm: its manifest lacks {name}")
    for name, record in files.items():
        record.verify(folder / name)
    values = read_plain(folder / "config.json")
    exported = isinstance(values, dict) and "adlm" in values  # transformers' fields around it
    config = from_dict(values["adlm"] if exported else values, where=folder / "config.json")
    hashes = [files[name].sha256 for name in own or ["model.safetensors"]]
    return Checkpoint(folder, config, Vocab.load(folder), parts.one_hash(hashes), own)


def _tensors(path: Path, begin: str = "") -> dict[str, Tensor]:
    """Return the tensors of a file whose names begin so."""
    try:
        with safe_open(path, "pt") as file:
            return {n: file.get_tensor(n) for n in file.keys() if n.startswith(begin)}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a safetensors file ({error})") from None


def _without_counts(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n: t for n, t in tensors.items() if not n.removeprefix("weights.").startswith(COUNTS)}


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies that share no memory (tied weights would)."""
    return {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
