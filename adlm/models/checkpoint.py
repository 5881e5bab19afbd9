"""One checkpoint format: a folder of safetensors, JSON and tokenizer.json; no pickle.

    config.json  tokenizer.json  vocab.json  model.safetensors      what evaluation needs
    lengths.json                                                    how long training rows are
    train.safetensors  state.json                                   what resuming needs besides
    manifest.json                                                   size and sha256 of each file

A checkpoint is written to a hidden folder and renamed: after a crash it is there whole or not at
all. Reading checks the manifest, so a damaged or foreign file is found before it is used.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from adlm.config import Config, from_dict, to_dict
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.models.held import Held
from adlm.models.history import drop, run_of, steps
from adlm.models.manifest import MANIFEST, Manifest
from adlm.system import sync
from adlm.values import plain, to_text, typed_object

State = TypeVar("State")
NEEDED = ("config.json", "tokenizer.json", "vocab.json", "model.safetensors")
FILES = (*NEEDED, "lengths.json", "source.json", MANIFEST)  # what use needs, without training's
COUNTS = "table_"  # how the names of the corpus's counts begin, beside the weights


@dataclass(frozen=True)
class Checkpoint:
    """A checked checkpoint folder."""

    path: Path
    config: Config
    vocab: Vocab
    hash: str  # of model.safetensors
    held: Held = field(compare=False, repr=False)

    @property
    def run(self) -> Path:
        """The run's folder, or the checkpoint's own where it stands alone."""
        return run_of(self.path) if self.path.parent.name == "checkpoints" else self.path

    @property
    def step(self) -> int | None:
        """The step of the run at which it was saved; None where it stands alone."""
        number = self.path.name.removeprefix("step-")
        return int(number) if self.run != self.path and number.isdigit() else None

    def weights(self) -> dict[str, Tensor]:
        """Return the (averaged) weights of the network."""
        return _without_counts(self.held.tensors("model.safetensors"))

    def counts(self) -> CorpusCounts | None:
        """Return how often tokens occur in the training corpus, where the anchor rule reads it."""
        tensors = self.held.tensors("model.safetensors", COUNTS)
        names = [COUNTS + name for name in ("tokens", "rows", "total")]
        if not tensors:
            return None
        shapes = [(self.vocab.size,), (self.vocab.size,), ()]
        for name, shape in zip(names, shapes, strict=True):
            if name not in tensors or tuple(tensors[name].shape) != shape:
                raise UserError(f"{self.path}: the tensor {name} must have shape {shape}")
            if not (tensors[name].isfinite().all() and (tensors[name] >= 0).all()):
                raise UserError(f"{self.path}: the tensor {name} must have counts of 0 or more")
        return CorpusCounts(*(tensors[name].double() for name in names))

    def lengths(self) -> Lengths:
        """Return how long the training's rows are; older checkpoints do not say it."""
        path, most = self.path / "lengths.json", self.config.data.length
        if path.name not in self.held.texts:
            return Lengths.unknown(most)
        try:
            counts = plain(self.held.texts[path.name], path)
        except UserError:
            counts = None
        good = isinstance(counts, list) and len(counts) == most
        if not (good and all(type(c) is int and 0 <= c < 2**53 for c in counts)):
            raise UserError(f"{path} must be a list of {most} counts, one for each length of a row")
        return Lengths(np.array(counts, dtype=np.int64))

    def training(self) -> dict[str, Tensor]:
        """Return the tensors that resuming needs."""
        self._check_kept("train.safetensors", self.held.tensor_files)
        return _without_counts(self.held.tensors("train.safetensors"))

    def state(self, kind: type[State]) -> State:
        """Return how far the training was: an object of the dataclass that was saved."""
        self._check_kept("state.json", self.held.texts)
        path = self.path / "state.json"
        return typed_object(plain(self.held.texts["state.json"], path), kind, path)

    def _check_kept(self, name: str, held: Collection[str]) -> None:
        if name not in held:
            raise UserError(f"{self.path} was exported for use only: it cannot be resumed")


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
        (work / "state.json").write_text(to_text(to_dict(state)), encoding="utf-8")
    drop(run, keep)
    return final


def write(
    work: Path,
    config: Config,
    vocab: Vocab,
    weights: dict[str, Tensor],
    lengths: Lengths | None = None,
    counts: CorpusCounts | None = None,
) -> None:
    """Write what evaluation needs into a folder."""
    (work / "config.json").write_text(to_text(to_dict(config), indent=2), encoding="utf-8")
    vocab.save(work)
    if lengths is not None:
        text = to_text(lengths.counts.tolist())
        (work / "lengths.json").write_text(text, encoding="utf-8")
    write_tensors(work, weights, counts)


def write_tensors(
    work: Path,
    weights: dict[str, Tensor],
    counts: CorpusCounts | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write model.safetensors: the weights, and beside them the corpus's counts."""
    beside = {COUNTS + name: tensor for name, tensor in vars(counts).items()} if counts else {}
    save_file(_plain(weights | beside), work / "model.safetensors", metadata)


@contextmanager
def whole(final: Path, unlisted: Collection[str] = ()) -> Iterator[Path]:
    """Make a hidden folder; once filled it gets its manifest and the name `final`.

    The manifest lists all files but the `unlisted`, which others may change.
    """
    work = final.parent / f".{final.name}.{uuid.uuid4().hex}.tmp"
    try:
        work.mkdir(parents=True)
        yield work
        Manifest.of(work, unlisted).write(work)
        for path in work.iterdir():
            sync(path)
        if final.exists():  # an incomplete folder of that name from elsewhere
            shutil.rmtree(final)
        work.rename(final)
        sync(final.parent)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"the checkpoint {final} could not be written ({error}); earlier ones are untouched"
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def find(path: str | Path) -> Path:
    """Return the checkpoint folder that a path means: itself, or the newest of a run.

    While a run goes on, one may come and another go between two looks.
    """
    path = Path(path).expanduser()
    if (path / MANIFEST).is_file():
        return path
    if not path.exists():
        raise UserError(f"there is no checkpoint or run {path}")
    found = steps(path) or steps(path) or steps(path)
    if not found:
        raise UserError(f"{path} holds neither a checkpoint ({MANIFEST}) nor a run with one")
    return found[-1]


def load(path: str | Path) -> Checkpoint:
    """Find and check a checkpoint; of a run that removes it meanwhile, the newest then."""
    while True:
        folder = find(path)
        try:
            return read(folder)
        except (UserError, OSError) as error:
            if not (folder / MANIFEST).is_file():
                continue  # `find` ends it where nothing is left
            if isinstance(error, UserError):
                raise
            raise UserError(f"{folder} cannot be read: {error.strerror or error}") from None


def read(folder: Path) -> Checkpoint:
    """Read and check a checkpoint's folder."""
    files = Manifest.read(folder).files
    for name in NEEDED:
        if name not in files:
            raise UserError(f"{folder} is not a checkpoint of adlm: its manifest lacks {name}")
    for name, record in files.items():
        record.verify(folder / name)
    held = Held(folder, files)
    values = plain(held.texts["config.json"], folder / "config.json")
    exported = isinstance(values, dict) and "adlm" in values  # transformers' fields around it
    config = from_dict(values["adlm"] if exported else values, where=folder / "config.json")
    return Checkpoint(folder, config, Vocab.load(folder), files["model.safetensors"].sha256, held)


def _without_counts(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n: t for n, t in tensors.items() if not n.removeprefix("weights.").startswith(COUNTS)}


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies that share no memory (tied weights would)."""
    return {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
