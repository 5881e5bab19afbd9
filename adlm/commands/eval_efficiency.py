"""`adlm eval efficiency`."""

from __future__ import annotations

from pathlib import Path

from adlm.commands.output import Output
from adlm.eval.efficiency import EfficiencySettings, measure
from adlm.eval.efficiency_result import EfficiencyResult
from adlm.viz.plots import require


def eval_efficiency(
    runs: list[str],
    settings: EfficiencySettings = EfficiencySettings(),
    out: str = "results/efficiency.json",
) -> None:
    """What inference costs, and the quality reached at each cost.

    Seconds a text, tokens/s, network passes, FLOPs and peak memory of each checkpoint over a grid;
    generative perplexity, entropy and MAUVE of what was written, drawn against tokens/s. Stopped
    half-way, the same command goes on with the cases that are left.

    Args:
        runs: Checkpoints or runs.
        settings: The grid, and what is written in each case of it.
        out: Result file; a plot (.png) is written beside it.
    """
    require()
    output = Output(Path(out))
    result = measure(runs, settings, output.keep, output.earlier(EfficiencyResult))
    plot = output.path.with_suffix(".png")
    output.finish(result, f" and {plot}" if result.judge else "")
    if result.judge:
        result.draw(plot)
