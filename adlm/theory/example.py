"""The paper's worked example (A.3.4), step by step: 0.1125 against 0.125.

L = 3, tokens {0, 1}, T = 3. The data are (1, 0, 0) with probability 0.9 and (0, 1, 1) with 0.1.
What is the probability that one reverse step leads from (m, m, m) to (m, 0, m)?

    positions 1 and 3 stay masked, position 2 is unmasked *and* gets the token 0

The step is t = 2/3 -> s = 1/3 with alpha = 1 - t, where a masked position is unmasked with
probability (alpha_s - alpha_t) / (1 - alpha_t) = 1/2. The caveat: the anchored figure comes from an
anchor operator that always writes the majority value, so it is not a calibrated posterior.
"""

from __future__ import annotations

from dataclasses import dataclass

ASSUMPTIONS = (
    "a masked position is unmasked with probability 0.5, which is (alpha_s - alpha_t) / "
    "(1 - alpha_t) for alpha = 1 - t",
    "the anchor operator always writes the more frequent value (majority rule), so it is not a "
    "calibrated posterior: the larger figure is not a better likelihood",
)
DATA = {(1, 0, 0): 0.9, (0, 1, 1): 0.1}


@dataclass(frozen=True)
class WorkedStep:
    """One reverse step to (m, 0, m), factor by factor."""

    name: str
    stay: float  # P(a position stays masked)
    unmask: float  # P(a position is unmasked)
    token: float  # P(position 2 gets token 0 | unmasked)

    @property
    def factors(self) -> tuple[float, float, float]:
        return self.stay, self.unmask * self.token, self.stay

    @property
    def probability(self) -> float:
        first, second, third = self.factors
        return first * second * third


def marginal(position: int, token: int) -> float:
    """P(x^position = token) under the data.

    Example:
        >>> marginal(1, 0)
        0.9
    """
    return sum(p for x, p in DATA.items() if x[position] == token)


def majority(position: int) -> int:
    """Return what the example's anchor operator writes: the more frequent value."""
    return max((0, 1), key=lambda token: marginal(position, token))


def transitions(unmask: float = 0.5) -> list[WorkedStep]:
    """Return the standard denoiser against the anchored one.

    Example:
        >>> [round(t.probability, 4) for t in transitions()]
        [0.1125, 0.125]
    """
    sure = 1.0 if majority(1) == 0 else 0.0
    return [
        WorkedStep(
            "standard: x^2 = 0 has its marginal probability", 1 - unmask, unmask, marginal(1, 0)
        ),
        WorkedStep("anchored: the anchor x^2 is decided first", 1 - unmask, unmask, sure),
    ]
