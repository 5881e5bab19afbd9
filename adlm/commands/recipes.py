"""`adlm recipes`."""

from __future__ import annotations

import inspect

from adlm import device as devices
from adlm import registry
from adlm.commands.plan import GPUS, UTILISATION, amount
from adlm.config import Config
from adlm.data.vocab import nominal_size
from adlm.measure import matmul_flops
from adlm.models.cost import parameters, training_flops
from adlm.progress import duration

LONG = 2 * 86400.0  # what takes longer here is told for GPUs
COUNT, GPU = 8, "h100"
LINE = "{:<13}{:>11}{:>8}{:>7}  {:<24}{}"


def start() -> None:
    """List the recipes: parameters, training tokens, FLOPs and about how long they take."""
    device = devices.pick()
    precision = devices.precision("auto", device)
    here = UTILISATION * matmul_flops(precision, device, budget=0.2)
    print(LINE.format("recipe", "parameters", "tokens", "FLOPs", "takes about", ""))
    for name in registry.names("recipe"):
        function = registry.lookup("recipe", name)
        print(LINE.format(name, *cost(function(), here), inspect.getdoc(function)))
    print(
        f"\nTimes at {UTILISATION:.0%} of the peak, assumed: of this machine ({device}, "
        f"{precision}) or of {COUNT} x {GPU}; adlm plan RECIPE measures a real step."
    )


def cost(config: Config, here: float) -> tuple[str, str, str, str]:
    """Parameters, tokens, FLOPs and time; `here` is this machine's FLOPs a second."""
    size = nominal_size(config.data.tokenizer)
    assert size is not None, "a recipe names a known tokenizer"
    tokens = config.train.steps * config.train.batch * config.data.length
    flops = tokens * training_flops(config, size)
    takes = f"{duration(flops / here)} here"
    if flops / here > LONG:
        seconds = flops / (COUNT * UTILISATION * GPUS[GPU].flops)
        takes = f"{duration(seconds)} on {COUNT} x {GPU}"
    return amount(parameters(config, size)), amount(tokens), f"{flops:.1g}", takes
