"""`adlm recipes`."""

from __future__ import annotations

import inspect

from adlm import device as devices
from adlm import registry
from adlm.budget import LARGE, UTILISATION, outline
from adlm.measure import matmul_flops

LINE = "{:<13}{:>11}{:>8}{:>7}  {:<24}{}"


def recipes() -> None:
    """List the recipes: parameters, training tokens, FLOPs and about how long they take."""
    device = devices.pick()
    precision = devices.precision("auto", device)
    here = UTILISATION * matmul_flops(precision, device, budget=0.2)
    print(LINE.format("recipe", "parameters", "tokens", "FLOPs", "takes about", ""))
    for name in registry.names("recipe"):
        function = registry.lookup("recipe", name)
        print(LINE.format(name, *outline(function(), here), inspect.getdoc(function)))
    count, gpu = LARGE
    print(
        f"\nTimes at {UTILISATION:.0%} of the peak, assumed: of this machine ({device}, "
        f"{precision}) or of {count} x {gpu}; adlm plan RECIPE measures a real step."
    )
