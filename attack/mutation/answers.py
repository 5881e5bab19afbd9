"""Mutants that no test can or need notice, and why: (file, text, changed text) to a sentence."""

from __future__ import annotations

ANSWERS: dict[tuple[str, str, str], str] = {
    ("adlm/process/anchors.py", "sample >= 0", "(sample > 0)"): (
        "the made-up row only tries that a user's rule runs; whether its first token is valid "
        "does not matter"
    ),
}
