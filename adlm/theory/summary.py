"""All of the theory at once: computed, told, drawn and stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from adlm.results import Result
from adlm.theory.complexity import TARGET, Curve, curves
from adlm.theory.em import em_curve
from adlm.theory.enumerate import BoundTerms, TabularPair, bound
from adlm.theory.example import ASSUMPTIONS, DATA, transitions
from adlm.theory.networks import SHAPES
from adlm.viz import plots

NETWORKS = 100


@dataclass(frozen=True)
class TheoryCase:
    """One random network: both sides, in nats."""

    length: int  # L
    steps: int  # T
    sigma: float
    bound: BoundTerms


@dataclass(frozen=True)
class Theorem:
    """Theorem 4.1 on random networks."""

    networks: int
    holds: int
    smallest_slack: float
    anchor_terms_differ_by: float
    first: list[TheoryCase]


@dataclass(frozen=True)
class Descent:
    """The EM view: the NLL after each round, and how often it rose."""

    nll: list[float]
    rises: int


@dataclass(frozen=True, kw_only=True)
class TheoryResult(Result):
    """The paper's statements in figures."""

    command: ClassVar[str] = "theory"
    example: dict[str, float]
    bound: Theorem
    complexity: list[Curve]
    em: Descent

    def lines(self) -> Iterator[str]:
        """Tell the figures with what they rest on."""
        yield "Worked example (A.3.4): data " + ", ".join(f"{x} with {p}" for x, p in DATA.items())
        yield "one reverse step (m, m, m) -> (m, 0, m), t = 2/3 -> 1/3"
        yield from (f"assumed: {assumption}" for assumption in ASSUMPTIONS)
        for step in transitions():
            stay, write, again = step.factors
            yield f"  {stay:g} x {write:g} x {again:g} = {step.probability:.4f}   {step.name}"
        b = self.bound
        yield f"\nTheorem 4.1 on {b.networks} random networks: -log p + gamma L_Anchor <= ANELBO"
        yield "L_Anchor (a KL) is also the ANELBO's anchor term (a cross-entropy), so it cancels,"
        yield "and what is left to hold is -log p <= NELBO: slack = NELBO + log p"
        yield "  L  T  sigma    -log p    NELBO    slack  L_Anchor  anchor term"
        for case in b.first:
            own = case.bound
            sides = f"{own.nll:9.4f}{own.nelbo:9.4f}{own.slack:9.4f}"
            terms = f"{own.divergence:10.4f}{own.anchor:13.4f}"
            yield f"  {case.length}  {case.steps}  {case.sigma:<5g} {sides}{terms}"
        least = f"smallest slack {b.smallest_slack:.2e} nats"
        yield f"  -log p <= NELBO holds in {b.holds} of {b.networks}; {least}"
        apart = b.anchor_terms_differ_by
        yield f"  L_Anchor and the anchor term differ by at most {apart:.1e} nats"
        yield "\nProposition 4.4: tables fitted on N samples, K = 2, L = 8, d = 1"
        yield "each excess is over the model's own floor; ADLM's tables are A2R's"
        yield f"  network  model  parameters  floor (nats)  exponent  N for excess < {TARGET} nats"
        for c in self.complexity:
            fit = f"{c.floor:>14.3f}{c.exponent:>10.2f} {c.needed:>10,.0f}"
            yield f"  {c.shape:<8} {c.model:<6} {c.parameters:>10}{fit}"
        nll = self.em.nll
        yield f"\nEM view (A.3.3): {len(nll)} rounds, {self.em.rises} rises"
        yield f"  NLL a sequence {nll[0]:.4f} -> {nll[-1]:.4f} nats"

    def draw(self, home: Path) -> None:
        """Write complexity.png and em.png."""
        panels: dict[str, list[plots.Line]] = {}
        for c in self.complexity:
            line = plots.Line(c.model, c.samples, c.excess, dashed=c.model == "ADLM")
            panels.setdefault(c.shape, []).append(line)
        labels = ("samples N", "loss above its floor (nats)")
        plots.curves(home / "complexity.png", panels, *labels, log_x=True, log_y=True)
        line = plots.Line("NLL a sequence", range(len(self.em.nll)), self.em.nll)
        panel = {"anchors as latent variables": [line]}
        plots.curves(home / "em.png", panel, "round", "NLL (nats)")


def measure() -> TheoryResult:
    """Compute everything, exactly and in fp64."""
    curve = em_curve()
    return TheoryResult(
        example={step.name.split(":")[0]: step.probability for step in transitions()},
        bound=theorem(),
        complexity=[c for shape in SHAPES for c in curves(shape)],
        em=Descent(curve, sum(b > a + 1e-12 for a, b in pairwise(curve))),
    ).stamped("cpu", "fp64")


def theorem(networks: int = NETWORKS) -> Theorem:
    """Compute both sides of Theorem 4.1 for random networks of 2 to 4 tokens."""
    cases = []
    for seed in range(networks):
        length, count, sigma = 2 + seed % 3, 2 + seed // 3 % 4, (0.0, 0.1, 0.3)[seed // 12 % 3]
        x = (1,) + (0,) * (length - 1)  # the first token occurs once: an anchor
        anchors = {i for i in range(length) if x.count(x[i]) == 1}
        found = bound(TabularPair.random(length, seed), x, anchors, count, sigma)
        cases.append(TheoryCase(length, count, sigma, found))
    slack = [case.bound.slack for case in cases]
    apart = max(case.bound.apart for case in cases)
    return Theorem(networks, sum(s >= -1e-9 for s in slack), min(slack), apart, cases[:6])
