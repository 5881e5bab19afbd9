"""A study of two runs of seconds, in processes of their own: what `adlm study anchoring` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from adlm.cli import base_config
from adlm.errors import one_sentence
from adlm.studies.language import make_study
from adlm.studies.runner import StudySettings, carry_out


def main() -> None:
    """Run the study in the current folder, or go on with it."""
    rows = {}
    for name in ("mdlm", "ar"):
        config = base_config(f"laptop-{name}", "pico")[0]
        data = replace(config.data, name="corpus.txt", tokenizer="byte", length=16)
        train = replace(config.train, steps=30, batch=4, eval_rows=4, save_every=5, eval_every=10)
        rows[name] = replace(config, data=data, train=replace(train, precision="fp32"))
    settings = replace(StudySettings.of("small"), home="out/runs", out="out/study.json")
    with one_sentence():
        carry_out(make_study("small", rows, settings), settings)


if __name__ == "__main__":
    Path("out").mkdir(exist_ok=True)
    main()
