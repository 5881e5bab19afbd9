"""Anchored chain of thought beside plain chain of thought, on sums of small numbers.

    python examples/anchored_chain_of_thought.py [--items 4000 --epochs 8]

The anchored model first says the important numbers of its solution, then the solution.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from adlm.errors import one_sentence
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.score import tally
from adlm.reasoning.train import load_trained, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--out", default="runs/example-reasoning")
    given = parser.parse_args()

    settings = ReasoningSettings(
        items=given.items, epochs=given.epochs, stages=2, valid=50, size="pico"
    )
    for method in ("cot", "acot"):
        plan = Plan("arithmetic", method, settings)
        folder = Path(given.out) / method
        if code := train(plan, folder, resume=True):
            raise SystemExit(code)
        solver = load_trained(str(folder)).solver
        attempts = solver.solve(plan.items("test", given.tests).items)
        found = tally(attempts)
        low, high = found.interval
        print(f"{method}: {found.accuracy:.1%} right ({low:.1%} to {high:.1%})")
        one = attempts[0]
        print(f"  {one.item.question}\n  {' '.join(one.slots)} {one.trace} -> {one.answer}")


if __name__ == "__main__":
    with one_sentence():
        main()
