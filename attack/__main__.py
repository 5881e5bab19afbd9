"""Attack adlm and write results/attack.json; what is in it is not done again.

    python -m attack [KIND ...] [--seconds 600] [--cases N] [--seed 23] [--only CASE]

`--only CASE` runs one case of a kind, shows what it said, and keeps nothing.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from attack import child, crowd, faults, inputs, kills, network, place, readers, shim
from attack.campaign import OUT, Campaign, Case

KINDS: dict[str, tuple[Case, Callable[[], int]]] = {
    "kills": (kills.case, lambda: 70),  # of four kills each, or fewer where a run ends before
    "inputs": (inputs.case, lambda: 10_000),
    "readers": (readers.case, lambda: 10 * len(readers.readers())),  # of 100 inputs each
    "faults": (faults.case, lambda: len(faults.faults())),
    "crowd": (crowd.case, lambda: 2 * len(crowd.ORDER)),
    "network": (network.case, lambda: len(network.LOST)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=3600.0, help="of each kind, at most")
    parser.add_argument("--cases", type=int, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--only", type=int, metavar="CASE")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    kinds = given.kinds or list(KINDS)
    if "faults" in kinds and not shim.load():
        print("faults need Linux and a C compiler: left out")
        kinds.remove("faults")
    child.warm()
    home, failed = place.HOME / f"work-{os.getpid()}", 0  # several may attack side by side
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    campaign = Campaign(given.seed, home, given.out) if given.only is None else None
    for kind in kinds:
        case, asked = KINDS[kind]
        if campaign is None:
            outcome = case(given.only, given.seed, home / kind)
            print(f"{outcome.shown}\n{outcome.said}\n{outcome.result}: {outcome.wrong or 'holds'}")
            continue
        count = min(asked(), given.cases or asked())
        tally = campaign.run(kind, case, count, given.seconds)
        print(f"{kind}: {tally.done} cases, {len(tally.failures)} do not hold", flush=True)
        failed += len(tally.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
