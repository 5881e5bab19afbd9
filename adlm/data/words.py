"""A faster way to encode with a byte-level BPE: every word between spaces once.

GPT-2's pattern never joins what stands before a white space to what follows it, so a text can be
cut there, ` ?[^space]+`, and white space that is longer as the pattern cuts it. Each piece is given
to the tokenizer the first time it is seen; after that its ids are looked up. The ids are those of
the tokenizer itself, for any text.
"""

from __future__ import annotations

import json
import re
from threading import Lock

import numpy as np
from tokenizers import Tokenizer

SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # as Unicode has it
PIECE = re.compile(rf" ?[^{SPACE}]+|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+")
MOST = 1 << 19  # pieces that are kept: about 100 MB
LONG = 64  # characters; longer pieces hardly come twice


class Words:
    """Pieces of text and their ids.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> Words(byte_vocab().tokenizer).encode(["to be"])[0].tolist()
        [83, 78, 220, 65, 68]
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.known: dict[str, bytes] = {}  # ids as uint32
        self.turn = Lock()  # threads would not be faster together

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Return the ids of each text."""
        with self.turn:
            return self._encode(texts)

    def _encode(self, texts: list[str]) -> list[np.ndarray]:
        cut = [PIECE.findall(text) for text in texts]
        seen: set[str] = set()
        seen.update(*cut)
        if len(self.known) + len(seen) > MOST:
            self.known = {}
        table = self.known
        new = list(seen.difference(table))
        found = self.tokenizer.encode_batch_fast(new, add_special_tokens=False)
        table.update((piece, _packed(e.ids)) for piece, e in zip(new, found, strict=True))
        joined = [b"".join(map(table.__getitem__, pieces)) for pieces in cut]
        for piece in new:
            if len(piece) > LONG:
                del table[piece]
        return [np.frombuffer(one, np.uint32) for one in joined]


def _packed(ids: list[int]) -> bytes:
    return np.array(ids, np.uint32).tobytes()


def fits(tokenizer: Tokenizer) -> bool:
    """Say whether it is a plain byte-level BPE with GPT-2's pattern, of which the above holds."""
    parts = json.loads(tokenizer.to_str())
    before, model = parts["pre_tokenizer"] or {}, parts["model"]
    return (
        parts["normalizer"] is None
        and before.get("type") == "ByteLevel"
        and before.get("add_prefix_space") is False
        and before.get("use_regex", True)
        and model["type"] == "BPE"
        and not model.get("dropout")
        and all(token["special"] for token in parts["added_tokens"])
        and tokenizer.encode_special_tokens
    )
