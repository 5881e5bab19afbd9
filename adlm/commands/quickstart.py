"""`adlm quickstart`."""

from __future__ import annotations

import time

from adlm.progress import console
from adlm.studies.quickstart import QuickstartSettings, run
from adlm.viz.table import terminal_table


def quickstart(settings: QuickstartSettings = QuickstartSettings()) -> None:
    """Train five small models on the default corpus, compare them, and see them write.

    Trains at one budget, scores the test split, samples and infills with each, and writes one page,
    report.html. Stopped at any moment, the same command goes on where it was.
    """
    began = time.monotonic()
    result = run(settings)
    shown = result.section("quickstart")
    title = "test split of the default corpus; ± is one standard error over documents"
    console.print(terminal_table(shown.header, shown.rows, title, console.width))
    minutes = (time.monotonic() - began) / 60
    print(f"{minutes:.1f} minutes; written to {settings.home / 'results.json'}")
    print(f"open {(settings.home / 'report.html').resolve()}")
