"""Figures of a likelihood, as files have them and tables show them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adlm.viz import table


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Nats, perplexity and bits, with their standard errors."""

    nll_per_token: float
    ppl: float | None  # None: beyond all numbers
    bits_per_byte: float
    se_nll: float | None
    se_ppl: float | None

    def cell(self, sign: str = "") -> str:
        """Return the perplexity in a table."""
        return f"{sign}{math.inf if self.ppl is None else self.ppl:.2f}{table.spread(self.se_ppl)}"

    def line(self, sign: str) -> str:
        """Perplexity, nats and bits in a sentence."""
        nats = f"{self.nll_per_token:.4f} nats a token"
        return f"PPL {self.cell(sign)}, {nats}, {self.bits_per_byte:.4f} bits a byte"


@dataclass(frozen=True, kw_only=True)
class CodedFigures(Figures):
    """The same with the lengths coded."""

    code: str


@dataclass(frozen=True, kw_only=True)
class OrderFigures(Figures):
    """The exact figures of a deterministic order."""

    order: str
    passes: int  # network passes of the longest row

    def said(self) -> str:
        """What was found, in a sentence."""
        return f"in the order {self.order}, exactly: {self.line('')}; {self.passes} passes a row"
