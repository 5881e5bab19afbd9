"""A short training by however many processes torchrun has started, every step logged.

torchrun --nproc-per-node 2 -m tests.reasoning.steps OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.train import train
from adlm.reasoning.workload import Reasoning
from adlm.train.workload import Cadence

SMALL = ReasoningSettings(
    items=25,  # the last batch of an epoch has one row
    batch=8,
    valid=2,
    stages=1,
    epochs=3,
    objective="a2r",
    options={"feedback": True},
    knobs={"least": 2, "most": 2, "limit": 8},
    size="pico",
    optim="adamw",
    precision="fp32",
    device="cpu",
)

if __name__ == "__main__":
    Reasoning.cadence = Cadence(log=1)
    sys.exit(train(Plan("arithmetic", "acot", SMALL), Path(sys.argv[1])))
