"""One run of a study: train (or resume), score the test split, keep the figures."""

from __future__ import annotations

import shutil
from pathlib import Path

from adlm.config import Config
from adlm.eval.likelihood import LikelihoodSettings, measure
from adlm.models import checkpoint
from adlm.train.run import train

TEST_ROWS, VALID_ROWS = 2048, 1024  # of the two splits, spread evenly
DRAWS = 4
VALID = "valid.json"  # beside result.json: settings are chosen by it, never by the test split


def work(home: Path, config: Config, keep: bool) -> int:
    """Returns the exit code; result.json is written last and marks the run as done.

    The weights go then, unless they are to be kept.
    """
    if code := train(config, home, resume=True):
        return code
    saved = checkpoint.load(home)
    valid = LikelihoodSettings(split="valid", limit=VALID_ROWS, draws=DRAWS)
    measure(saved, valid).save(home / VALID)
    measure(saved, LikelihoodSettings(limit=TEST_ROWS, draws=DRAWS)).save(home / "result.json")
    if not keep:
        shutil.rmtree(home / "checkpoints")  # the figures stay
    return 0
