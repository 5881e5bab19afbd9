"""The whole way from a data configuration to rows: source -> vocab -> store -> rows."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from adlm.config import DataConfig
from adlm.data import cache, vocab
from adlm.data.pack import Rows, framed, pack
from adlm.data.pairs import open_pairs
from adlm.data.sources import data_dirs, open_source
from adlm.data.vocab import Vocab
from adlm.errors import UserError, nearest


def open_vocab(config: DataConfig) -> Vocab:
    """Open the vocabulary that a configuration names; bpe:SIZE is trained on the train split."""
    spec = config.tokenizer
    if spec == "byte":
        return vocab.byte_vocab()
    if spec == "gpt2":
        return vocab.gpt2_vocab(data_dirs(config))
    if spec == "bert":
        return vocab.bert_vocab(data_dirs(config))
    if spec.startswith("bpe:") or spec == "bpe":
        if (size := vocab.nominal_size(spec)) is None:
            raise UserError(f"data.tokenizer '{spec[:40]}' must give a size, such as bpe:1024")
        return _trained(config, size)
    path = Path(spec).expanduser()
    if path.exists() or os.sep in spec or path.suffix:
        return vocab.file_vocab(path)
    raise UserError(
        f"there is no tokenizer '{spec}'{nearest(spec, ['byte', 'bpe:SIZE', 'gpt2', 'bert'])}"
    )


def _trained(config: DataConfig, size: int) -> Vocab:
    """Train a BPE once per content and size, and keep it as a tokenizer.json in the cache."""
    source = open_source(config, "train")
    key = hashlib.sha256(f"{cache.VERSION} {source.fingerprint} {size}".encode()).hexdigest()[:32]
    home = cache.folder() / "bpe" / f"{key}.json"
    if home.is_file():
        return vocab.file_vocab(home)
    with cache.locked(home):
        if not home.is_file():
            _keep(vocab.train_bpe(source.documents(), size), home)
    return vocab.file_vocab(home)


def _keep(made: Vocab, home: Path) -> None:
    """Write a tokenizer.json, whole or not at all."""
    part = home.with_suffix(".tmp")
    try:
        part.write_text(made.tokenizer.to_str(), encoding="utf-8")
        part.replace(home)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"the tokenizer {home} cannot be written: {error.strerror}") from None


def open_rows(config: DataConfig, split: str, words: Vocab) -> Rows:
    """Open the rows of one split."""
    if config.packing == "pair":
        return open_pairs(config, split, words)
    store = cache.load(open_source(config, split), words, config.workers)
    if split == "train" and len(store.tokens) < config.length:
        raise UserError(
            f"data.length {config.length} is larger than the train split of {config.name}, "
            f"which has {len(store.tokens)} tokens"
        )
    if config.compat:
        return framed(store, words, config.length, config.packing)
    return pack(store, words, config.length, config.packing, config.attend)


def text_rows(text: str, words: Vocab, length: int) -> Rows:
    """Cut a text of one's own into rows."""
    if not text.strip():
        raise UserError("the text is empty")
    ids = words.encode([text])[0]
    return pack(cache.TokenStore(ids, np.array([len(ids)]), 0, ""), words, length, "wrap")
