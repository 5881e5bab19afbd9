"""Tokens of a problem: words for a laptop, or any tokenizer, with the slots' special tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

from adlm.config import DataConfig
from adlm.data.sources import data_dirs
from adlm.data.vocab import Vocab, byte_vocab, file_vocab, gpt2_vocab, make_vocab
from adlm.errors import UserError
from adlm.reasoning.item import WORD, Item, words

# anchors between begin and end, continuous thoughts between begin and end, pauses
SPECIAL = ("[BOA]", "[ANT]", "[EOA]", "[BOT]", "[THOUGHT]", "[EOT]", "[PAUSE]")
MARKS = ("[BOA]", "[EOA]", "[BOT]", "[EOT]")  # begin and end: no slots themselves
ANSWER = "###"  # stands before every answer
UNKNOWN = "[UNK]"


@dataclass(frozen=True)
class Pieces:
    """An item as tokens."""

    question: list[int]
    steps: list[list[int]]
    answer: list[int]  # with the mark before it and EOS after it
    anchors: list[int]  # the first token of each important word


def word_vocab(texts: Iterable[str]) -> Vocab:
    """One token a word or sign of the texts; spacing is not kept.

    Example:
        >>> vocab = with_special(word_vocab(["Tom is a terpus."]))
        >>> vocab.decode(vocab.encode(["a terpus is a wumpus"])[0])
        'a terpus is a [UNK]'
    """
    known = sorted({w for text in texts for w in words(text)} | {ANSWER})
    ids = {word: i for i, word in enumerate([UNKNOWN, *known])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    return make_vocab(tokenizer)


def with_special(vocab: Vocab) -> Vocab:
    """Return the vocabulary with the slots' tokens at its end, where it lacks them."""
    tokenizer = Tokenizer.from_str(vocab.tokenizer.to_str())
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    tokenizer.encode_special_tokens = True  # "[ANT]" in a text is text
    return Vocab(tokenizer, vocab.mask, vocab.bos, vocab.eos, vocab.pad)


def special(vocab: Vocab, name: str) -> int:
    """Return the id of a slot's token."""
    found = vocab.tokenizer.token_to_id(name)
    if found is None:
        raise UserError(
            f"the base model's vocabulary lacks the special token {name}: --add-tokens adds it"
        )
    return found


def items_vocab(items: list[Item]) -> Vocab:
    """Return the words of the items, with the slots' tokens."""
    parts = ((i.question, *i.steps, *i.anchors, i.answer) for i in items)
    return with_special(word_vocab(text for texts in parts for text in texts))


def open_tokenizer(name: str, folder: str | None) -> Vocab | None:
    """Return the tokenizer of that name with the slots' tokens; none for the items' own `words`."""
    if name == "words":
        return None
    if name == "byte":
        return with_special(byte_vocab())
    if name == "gpt2":
        return with_special(gpt2_vocab(data_dirs(DataConfig(dir=folder))))
    if Path(name).exists():
        return faithful(with_special(file_vocab(Path(name))), name)
    raise UserError(f"tokenizer must be words, byte, gpt2 or a file, found '{name}'")


def faithful(vocab: Vocab, name: str) -> Vocab:
    """Refuse a tokenizer that cannot give an answer back as it was (bert's has no capitals)."""
    text = f"{ANSWER} Tom is a lempus."
    if vocab.decode(vocab.encode([text])[0]).strip() != text:
        raise UserError(f"{name} cannot give '{text}' back: reasoning needs a tokenizer that can")
    return vocab


def pieces(item: Item, vocab: Vocab) -> Pieces:
    """An item as tokens; what follows the question begins with a space, as in running text."""
    parts = [f" {part}" for part in (*item.steps, f"{ANSWER} {item.answer}")]
    first, *rest = [e.tolist() for e in vocab.encode([item.question, *parts])]
    if not first:
        raise UserError(f"the tokenizer has no token for the question '{item.question[:40]}'")
    return Pieces(first, rest[:-1], [*rest[-1], vocab.eos], anchor_tokens(item, vocab))


def anchor_tokens(item: Item, vocab: Vocab) -> list[int]:
    """Return the first token of each anchor as it stands in the trace, one after the other.

    An anchor that the trace writes otherwise (a singular of a plural) is encoded by itself.
    """
    trace = " " + item.trace
    encoded = vocab.tokenizer.encode(trace, add_special_tokens=False)
    found, start = [], 0
    for word in item.anchors:
        place = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", trace[start:])
        at = start + place.start() if place else None
        spans = zip(encoded.offsets, encoded.ids, strict=True)
        token = next((t for (low, high), t in spans if at is not None and low <= at < high), None)
        if token is None:
            token = next(iter(vocab.encode([word])[0].tolist()), None)
        if token is not None:
            found.append(token)
            start = start if at is None else at
    return found
