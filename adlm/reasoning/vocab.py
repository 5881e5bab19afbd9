"""Tokens of a problem: words for a laptop, or any tokenizer, with the slots' special tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

from adlm.config import DataConfig
from adlm.data.sources import data_dirs
from adlm.data.vocab import Vocab, bert_vocab, byte_vocab, file_vocab, gpt2_vocab, make_vocab
from adlm.errors import UserError
from adlm.reasoning.item import WORD, Item, words

# anchors between begin and end, continuous thoughts between begin and end, pauses
SPECIAL = ("[BOA]", "[ANT]", "[EOA]", "[BOT]", "[THOUGHT]", "[EOT]", "[PAUSE]")
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
    """The vocabulary with the slots' tokens at its end, where it lacks them."""
    tokenizer = Tokenizer.from_str(vocab.tokenizer.to_str())
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    tokenizer.encode_special_tokens = True  # "[ANT]" in a text is text
    return Vocab(tokenizer, vocab.mask, vocab.bos, vocab.eos, vocab.pad)


def special(vocab: Vocab, name: str) -> int:
    """The id of a slot's token."""
    found = vocab.tokenizer.token_to_id(name)
    if found is None:
        raise UserError(
            f"the base model's vocabulary lacks the special token {name}: --add_tokens adds it"
        )
    return found


def open_tokenizer(name: str, items: list[Item], folder: str | None) -> Vocab:
    """The tokenizer of that name with the slots' tokens; `words` are those of the items."""
    dirs = data_dirs(DataConfig(dir=folder))
    if name == "words":
        parts = ((i.question, *i.steps, *i.anchors, i.answer) for i in items)
        return with_special(word_vocab(text for texts in parts for text in texts))
    made = {"byte": byte_vocab, "gpt2": lambda: gpt2_vocab(dirs), "bert": lambda: bert_vocab(dirs)}
    if name in made:
        return with_special(made[name]())
    if Path(name).exists():
        return with_special(file_vocab(Path(name)))
    raise UserError(f"tokenizer must be words, byte, gpt2, bert or a file, found '{name}'")


def pieces(item: Item, vocab: Vocab) -> Pieces:
    """An item as tokens; what follows the question begins with a space, as in running text."""
    parts = [*item.steps, f"{ANSWER} {item.answer}", *item.anchors]
    first, *rest = [
        e.tolist() for e in vocab.encode([item.question, *(f" {part}" for part in parts)])
    ]
    count = len(item.steps)
    anchors = [ids[0] for ids in rest[count + 1 :] if ids]
    return Pieces(first, rest[:count], [*rest[count], vocab.eos], anchors)
