"""Mutants that no test can or need notice, and why: (file, text, changed text) to a sentence."""

from __future__ import annotations

ANSWERS: dict[tuple[str, str, str], str] = {}
