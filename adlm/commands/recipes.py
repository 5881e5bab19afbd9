"""`adlm recipes`."""

from __future__ import annotations

import inspect

from adlm import device as devices
from adlm import registry
from adlm.budget import LARGE, UTILISATION, outline
from adlm.measure import training_speed

LINE = "{:<{wide}}{:>11}{:>8}{:>7}  {:<25}{}"


def recipes() -> None:
    """List the recipes: parameters, training tokens, FLOPs and about how long they take."""
    device = devices.pick()
    precision = devices.precision("auto", device)
    here = training_speed(device, precision)
    names = registry.names("recipe")
    wide = max(map(len, names))
    print(LINE.format("recipe", "parameters", "tokens", "FLOPs", "takes about", "", wide=wide))
    for name in names:
        function = registry.lookup("recipe", name)
        what = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        print(LINE.format(name, *outline(function(), here), what, wide=wide))
    count, gpu = LARGE
    print(
        f"\nTimes without evaluation: here ({device}, {precision}) from a small step measured now, "
        f"or at {UTILISATION:.0%} of the peak of {count} x {gpu}, assumed; adlm plan RECIPE "
        "measures the recipe's own step."
    )
