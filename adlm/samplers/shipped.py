"""How the models that come with the package write best, unless they are told how."""

from __future__ import annotations

from typing import Any

from adlm.samplers.template import HOLE

NUCLEUS = 0.6  # share of the probability that they draw from; a larger one breaks more words
SHORT = 16  # tokens of a hole that is filled by confidence


def manner(text: str = "") -> dict[str, Any]:
    """Return the sampler and nucleus that write best after a prompt, or into the holes of a text.

    By confidence nearly all words are whole; but into a hole of more than SHORT tokens it writes
    the same ones again and again, and remdm-cap does not.

    Example:
        >>> manner()
        {'sampler': 'confidence', 'nucleus': 0.6}
        >>> manner("The state of the Union is [MASK:24].")
        {'sampler': 'remdm-cap', 'nucleus': 0.6}
    """
    short = all(int(found.group(1) or 1) <= SHORT for found in HOLE.finditer(text))
    return {"sampler": "confidence" if short else "remdm-cap", "nucleus": NUCLEUS}
