"""The same model, several samplers: network passes, entropy and repetition of what they write.

python examples/compare_samplers.py runs/quickstart/laptop-mdlm [-n 16]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import adlm
from adlm.errors import one_sentence
from adlm.eval.texts import entropy, repetition
from adlm.samplers import template

SAMPLERS = {
    "ancestral": {},
    "first-hitting": {},
    "remdm-loop": {"nucleus": 0.9},
    "confidence": {"temperature": 1.0},
    "anchor-first": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run or checkpoint of a diffusion model")
    parser.add_argument("-n", type=int, default=16)
    given = parser.parse_args()

    model = adlm.load(given.run)
    blank = template.after("", model.config.data.length, model.vocab)
    print(f"{'sampler':<15}{'passes':>8}{'entropy':>9}{'repeated':>10}{'ms a text':>11}")
    for name, how in SAMPLERS.items():
        if name == "anchor-first" and model.config.objective != "adlm":
            continue  # it needs an anchor network
        began = time.perf_counter()
        made = model.write(blank, adlm.api.settings(n=given.n, sampler=name, **how))
        each = 1000 * (time.perf_counter() - began) / given.n
        ids = [row.tolist() for row in made.tokens]
        spread = np.mean([entropy(i) for i in ids])
        again = np.mean([repetition(i) for i in ids])
        print(f"{name:<15}{made.nfe.mean():>8.1f}{spread:>9.2f}{again:>10.3f}{each:>11.0f}")


if __name__ == "__main__":
    with one_sentence():
        main()
