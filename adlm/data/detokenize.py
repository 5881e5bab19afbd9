"""The field's detokenizers: published test sets are tokenised; these rules restore plain text.

Each is a list of (pattern, replacement) applied in order, so that a rule can be read and checked
one line at a time. They follow what published zero-shot perplexities use; where those rules leave
punctuation at a line's end or LaTeX quotes untouched, these restore it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Rule = tuple[str, str]


def rules(table: Sequence[Rule]) -> Callable[[str], str]:
    """Return a function that applies the rules in order.

    Example:
        >>> rules([(r" ,", ","), (r"b", "c")])("a , b")
        'a, c'
    """
    compiled = [(re.compile(pattern, re.MULTILINE), to) for pattern, to in table]

    def apply(text: str) -> str:
        for pattern, to in compiled:
            text = pattern.sub(to, text)
        return text

    return apply


wikitext = rules(
    [
        (r"s '", "s'"),
        (r"/' [0-9]/", r"/'[0-9]/"),
        (r" @-@ ", "-"),
        (r" @,@ ", ","),
        (r" @\.@ ", "."),
        (r" ([:;.!?,]) ", r"\1 "),
        (r" ([:;.!?,])$", r"\1"),
        (r"\(\s*([^)]*?)\s*\)", r"(\1)"),
        (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
        (r"{\s*([^}]*?)\s*}", r"{\1}"),
        (r'"\s*([^"]*?)\s*"', r'"\1"'),
        (r"'\s*([^']*?)\s*'", r"'\1'"),
        (r"= = = =", "===="),
        (r"= = =", "==="),
        (r"= =", "=="),
        (r" ° ", "°"),
        (r" \n", "\n"),
        (r"\n ", "\n"),
        (r" N ", " 1 "),
        (r" 's", "'s"),
    ]
)

ptb = rules(
    [
        (r" 's", "'s"),
        (r"s ' ", "s' "),
        (r" n't", "n't"),
        (r" \n ", "\n"),
        (r"\\/", "/"),
        (r" N(?= )", " 1"),
        (r"\$ 1", "$1"),
        (r"# 1", "#1"),
        (r"<unk>", "?"),
    ]
)

lm1b = rules(
    [
        (r"http : / / ", "http://"),
        (r"https : / / ", "https://"),
        (r" '(\w+)", r"'\1"),
        (r" (\w+) \. ", r" \1. "),
        (r" (\w+) \.$", r" \1."),
        (r" \? ", "? "),
        (r" \?$", "?"),
        (r" ! ", "! "),
        (r" !$", "!"),
        (r" , ", ", "),
        (r" : ", ": "),
        (r" ; ", "; "),
        (r" / ", "/"),
        (r'" ([^"]+) "', r'"\1"'),
        (r"' ([^']+) '", r"'\1'"),
        (r"\( ([^()]+) \)", r"(\1)"),
        (r"\[ ([^\[\]]+) \]", r"[\1]"),
        (r"\$ ", "$"),
        (r"£ ", "£"),
    ]
)

lambada = rules([(r"“|”|``|''", '"')])


def scientific(text: str) -> str:
    """Restore scientific papers: tokenised like WikiText, with LM1B's punctuation."""
    return lm1b(wikitext(text))


def none(text: str) -> str:
    """Return plain text as it is."""
    return text
