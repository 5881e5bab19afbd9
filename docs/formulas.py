"""Formulas of a page as MathML, which a browser draws by itself: no script, no network.

In the source they are LaTeX between dollars, $x$ in a line and $$x$$ on lines of their own, as
GitHub shows them. What stands in code is left alone.
"""

from __future__ import annotations

import re

from latex2mathml.converter import convert

PARTS = re.compile(
    r"(?P<code>^```.*?^```|^ {4}[^\n]*|`[^`]+`)"
    r"|\$\$(?P<block>.+?)\$\$"
    r"|\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$",
    re.DOTALL | re.MULTILINE,
)


def set_formulas(text: str) -> str:
    """The page with its formulas set."""
    return PARTS.sub(one, text)


def one(found: re.Match[str]) -> str:
    """A formula as MathML, or code as it is."""
    if found["code"]:
        return found["code"]
    if found["block"]:
        return f'<div class="formula">{mathml(found["block"].strip(), "block")}</div>'
    # within a span, a formula at the start of a line does not end the paragraph
    return f'<span class="formula">{mathml(found["inline"], "inline")}</span>'


def mathml(latex: str, display: str) -> str:
    """One formula; a logarithm keeps a little distance from what follows."""
    made = convert(latex, display=display)
    return made.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em"/>')
