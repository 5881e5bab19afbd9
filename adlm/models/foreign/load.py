"""Another project's weights -> configuration, vocabulary and network of ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from adlm.config import Config, DataConfig
from adlm.data.corpus import open_vocab
from adlm.data.counts import CorpusCounts
from adlm.data.lengths import Lengths
from adlm.data.sources import data_dirs
from adlm.data.vocab import Vocab, file_vocab, gpt2_vocab
from adlm.errors import UserError
from adlm.models import checkpoint, hub
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser
from adlm.models.foreign.base import find_format
from adlm.models.foreign.own import Own
from adlm.models.foreign.source import Source, open_source
from adlm.models.widen import widen

# whose vocabulary it is where the folder has no tokenizer of its own, by the number of tokens
USUAL = {50257: "gpt2", 50258: "gpt2", 30522: "bert", 258: "byte"}


@dataclass(frozen=True)
class Imported:
    """A network of another project as one of ours."""

    origin: dict[str, str]  # source, format, weights: averaged or raw, where there are two
    config: Config
    vocab: Vocab
    model: Denoiser
    lengths: Lengths | None = None  # of training rows, where the folder is one of ours
    counts: CorpusCounts | None = None


def load_foreign(
    name: str, raw: bool = False, tokenizer: str | None = None, data_dir: str | None = None
) -> Imported:
    """Read a folder, a training checkpoint or a name on the hub.

    `raw` takes a training checkpoint's weights as they are, not their average; `tokenizer` is as
    data.tokenizer, where the folder has none and the size does not tell.
    """
    source = open_source(name, raw)
    kind = find_format(source)
    config, tensors = kind.config(source), kind.tensors(source)
    size = len(tensors["embed.weight"])
    spec, vocab = choose_vocab(source, size, tokenizer, data_dir)
    spec = config.data.tokenizer if isinstance(kind, Own) and not tokenizer else spec
    if not kind.serves(size, vocab):
        raise UserError(
            f"{source.path} has {size} tokens, but its tokenizer ({spec}) has {vocab.size} with "
            "the mask: name the right one with --tokenizer"
        )
    if vocab.size < size:
        tensors = {k: cut(t, size, vocab.size) for k, t in tensors.items()}
        size = vocab.size
    config = replace(config, data=replace(config.data, tokenizer=spec))
    model = build_model(config, size)
    hub.fill(model, tensors, source.file, kind.names(source))
    if vocab.size > size:
        model = widen(model, config, vocab.size)
    weights = ("raw" if raw else "averaged") if source.training else "as published"
    shown = Path(name).name if Path(name).expanduser().exists() else name
    origin = {"source": shown, "format": type(kind).__name__.lower(), "weights": weights}
    made = Imported(origin, config, vocab, model.eval())
    if not (source.path / checkpoint.MANIFEST).is_file():
        return made
    saved = checkpoint.load(source.path)
    return replace(made, lengths=saved.lengths(), counts=saved.counts())


def choose_vocab(
    source: Source, size: int, tokenizer: str | None, data_dir: str | None
) -> tuple[str, Vocab]:
    """The vocabulary, and how data.tokenizer names it: the given one, the folder's, or a usual."""
    data = DataConfig(tokenizer=tokenizer or USUAL.get(size, ""), dir=data_dir)
    if tokenizer:
        return tokenizer, open_vocab(data)
    if (source.path / checkpoint.MANIFEST).is_file():
        return "its own", Vocab.load(source.path)
    if (source.path / "tokenizer.json").is_file():
        return "tokenizer.json", file_vocab(source.path)
    if data.tokenizer == "gpt2":
        return "gpt2", gpt2_vocab([source.path, *data_dirs(data)])
    if data.tokenizer:
        return data.tokenizer, open_vocab(data)
    raise UserError(
        f"{source.path} has no tokenizer.json, and {size} tokens are not those of gpt2, bert or "
        "byte: name its tokenizer with --tokenizer"
    )


def cut(tensor: Tensor, old: int, new: int) -> Tensor:
    """The first rows of what has one for each token."""
    return tensor[:new] if len(tensor) == old else tensor


def is_foreign(name: str) -> bool:
    """Is it a folder of another project, or no folder at all (then the hub may have it)?"""
    path = Path(name).expanduser()
    return not path.exists() or not (
        (path / checkpoint.MANIFEST).is_file() or (path / "checkpoints").is_dir()
    )
