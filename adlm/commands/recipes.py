"""`adlm recipes`."""

from __future__ import annotations

import inspect

from adlm import device as devices
from adlm import registry
from adlm.budget import LARGE, UTILISATION, outline
from adlm.measure import matmul_flops

LINE = "{:<{wide}}{:>11}{:>8}{:>7}  {:<25}{}"


def recipes() -> None:
    """List the recipes: parameters, training tokens, FLOPs and about how long they take."""
    device = devices.pick()
    precision = devices.precision("auto", device)
    here = UTILISATION * matmul_flops(precision, device, budget=0.2)
    names = registry.names("recipe")
    wide = max(map(len, names))
    print(LINE.format("recipe", "parameters", "tokens", "FLOPs", "takes about", "", wide=wide))
    for name in names:
        function = registry.lookup("recipe", name)
        what = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        print(LINE.format(name, *outline(function(), here), what, wide=wide))
    count, gpu = LARGE
    print(
        f"\nTimes at {UTILISATION:.0%} of the peak, assumed: of this machine ({device}, "
        f"{precision}) or of {count} x {gpu}; adlm plan RECIPE measures a real step."
    )
