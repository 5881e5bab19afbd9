"""What the quickstart found: five models on one test split, with what they write."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from adlm.eval.likelihood import LikelihoodResult
from adlm.registry import register
from adlm.results import Json, Result
from adlm.viz.page import Section
from adlm.viz.plots import Line, png
from adlm.viz.table import bounded

KINDS = {
    "laptop-ar": "autoregressive",
    "laptop-a2r": "autoregressive, through an anchor network",
    "laptop-mdlm": "masked diffusion",
    "laptop-adlm": "masked diffusion, through an anchor network",
    "laptop-deep": "masked diffusion, with an early loss on its first block",
}


@dataclass(frozen=True, kw_only=True)
class WrittenTexts:
    """What a model writes, and by which settings."""

    checkpoint_hash: str | None
    prompt: str
    ways: dict[str, Json]  # how it writes -> settings of the sampler
    samples: dict[str, list[str]]  # how it writes -> texts
    holes: str
    fillings: list[str]
    replay: str | None = None  # a page, of diffusion


@dataclass(frozen=True, kw_only=True)
class QuickstartRow(LikelihoodResult, WrittenTexts):
    """One model: its likelihood, how it learnt, and what it writes."""

    training_seconds: float | None
    curve: list[tuple[int, float]]  # (tokens, nats a token on the valid split)

    @property
    def training_tokens(self) -> int:
        train = self.config["train"]
        return train["steps"] * train["batch"] * self.config["data"]["length"]

    @property
    def figure(self) -> str:
        """Test PPL with its standard error."""
        return self.cell(self.sign)


@register("result", "quickstart")
@dataclass(frozen=True, kw_only=True)
class QuickstartResult(Result):
    """All models of a quickstart."""

    command: ClassVar[str] = "quickstart"
    rows: dict[str, QuickstartRow]

    @property
    def first(self) -> QuickstartRow:
        return list(self.rows.values())[0]  # noqa: RUF015, an IndexError where there is none

    def section(self, name: str) -> Section:
        """Return what came out, in a table and three notes, and how the models learnt."""
        notes = [f"{self.budget()} {self.best()}", EXPLAINED, self.caption()]
        rows = [
            [
                recipe,
                KINDS.get(recipe, ""),
                f"{(r.parameters or 0) / 1e6:.2f} M",
                r.figure,
                bounded(r.bits_per_byte, r.exact, digits=3),
                f"{(r.training_seconds or 0) / 60:.1f}",
            ]
            for recipe, r in self.rows.items()
        ]
        lines = [
            Line(recipe, [t for t, _ in r.curve], [math.exp(nats) for _, nats in r.curve])
            for recipe, r in self.rows.items()
            if r.curve
        ]
        plot = png({"validation perplexity": lines}, "tokens", "PPL", log_y=True)
        return Section(
            name,
            ["model", "what it is", "parameters", "test perplexity", "bits a byte", "minutes"],
            rows,
            notes,
            plots=[("validation perplexity against tokens", plot)],
            details={n: r.config | {"data_hash": r.data_hash} for n, r in self.rows.items()},
        )

    def budget(self) -> str:
        """Say what was trained on what."""
        first = self.first
        return (
            f"{len(self.rows)} small models were trained on the State of the Union addresses, each "
            f"on {first.training_tokens / 1e6:.2f} million tokens in rows of "
            f"{first.config['data']['length']}."
        )

    def best(self) -> str:
        """The best model among those whose figure is exact, and among those with a bound."""
        said = []
        for kind, exact in (("autoregressive model", True), ("diffusion model", False)):
            some = [(r.ppl, name) for name, r in self.rows.items() if r.exact == exact]
            if some:
                name = min(some)[1]
                said.append(f"The best {kind} is {name} with {self.rows[name].figure}.")
        return " ".join(said)

    def caption(self) -> str:
        """Say what the signs of the table mean."""
        first = self.first
        return (
            f"Test split, {first.tokens:,} tokens; ± is one standard error over {first.se_over}. "
            "A diffusion model's perplexity is an upper bound (≤). One seed each: small "
            "differences mean nothing; `adlm study anchoring` compares over seeds."
        )


EXPLAINED = (
    "An anchor network predicts tokens first (in rows this short the paper's rule marks nearly all "
    "of them), and the rest of the model sees that prediction alone (A2R, ADLM). laptop-deep is no "
    "anchored model: a second loss on the first block of an MDLM, for a quarter of the training."
)
