"""Fill the holes of a text with a diffusion model: both sides of a hole count.

python examples/infill.py runs/quickstart/laptop-adlm "The [MASK] of the union is [MASK:4] ."
"""

from __future__ import annotations

import argparse

import adlm
from adlm.errors import one_sentence
from adlm.viz.html import write_replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run or checkpoint")
    parser.add_argument("text", nargs="?", default="The [MASK] of the union is [MASK:4] .")
    parser.add_argument("--page", default="infill.html", help="the replay, to open in a browser")
    given = parser.parse_args()

    model = adlm.load(given.run)
    fillings = model.infill(given.text, n=4, sampler="remdm-loop", steps=32, nucleus=0.9)
    nats = model.nll(fillings)  # an upper bound: which filling does the model itself like best?
    for cost, text in sorted(zip(nats, fillings, strict=True)):
        print(f"{cost:7.1f} nats  {text}")

    write_replay(model.trace(text=given.text, steps=16), given.page)
    print(f"open {given.page} to see a filling appear, anchors coloured")


if __name__ == "__main__":
    with one_sentence():
        main()
