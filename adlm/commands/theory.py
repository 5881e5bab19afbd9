"""`adlm theory`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from adlm.errors import UserError
from adlm.results import stamped, write_json
from adlm.theory.complexity import TARGET, curves
from adlm.theory.em import em_curve
from adlm.theory.enumerate import TabularPair, bound
from adlm.theory.example import ASSUMPTIONS, DATA, transitions
from adlm.theory.networks import SHAPES
from adlm.viz import plots

NETWORKS = 100


def start(out: str = "runs/theory") -> None:
    """Compute the paper's theory exactly: the bound, the worked example, sample complexity, EM.

    Args:
        out: Folder for theory.json and the plots.
    """
    plots.require()
    home = Path(out)
    if home.exists() and not home.is_dir():
        raise UserError(f"--out {home} is a file; it must be a folder")
    result = {
        "example": worked_example(),
        "bound": theorem(),
        "complexity": complexity(home),
        "em": em(home),
    }
    write_json(home / "theory.json", stamped(result, "cpu", "fp64"))
    print(f"\nwritten to {home / 'theory.json'}, complexity.png and em.png")


def worked_example() -> dict[str, float]:
    """The example's two figures, with what they rest on."""
    print("Worked example (A.3.4): data " + ", ".join(f"{x} with {p}" for x, p in DATA.items()))
    print("one reverse step (m, m, m) -> (m, 0, m), t = 2/3 -> 1/3")
    for assumption in ASSUMPTIONS:
        print(f"assumed: {assumption}")
    out = {}
    for step in transitions():
        stay, write, again = step.factors
        print(f"  {stay:g} x {write:g} x {again:g} = {step.probability:.4f}   {step.name}")
        out[step.name.split(":")[0]] = step.probability
    return out


def theorem() -> dict[str, Any]:
    """Theorem 4.1 on random networks."""
    print(f"\nTheorem 4.1 on {NETWORKS} random networks: -log p + gamma L_Anchor <= ANELBO")
    print("L_Anchor (a KL) is also the ANELBO's anchor term (a cross-entropy), so it cancels, and")
    print("what is left to hold is -log p <= NELBO: slack = NELBO + log p")
    print("  L  T  sigma    -log p    NELBO    slack  L_Anchor  anchor term")
    rows = []
    for seed in range(NETWORKS):
        length, count, sigma = 2 + seed % 3, 2 + seed // 3 % 4, (0.0, 0.1, 0.3)[seed // 12 % 3]
        x = (1,) + (0,) * (length - 1)  # the first token occurs once: an anchor
        anchors = {i for i in range(length) if x.count(x[i]) == 1}
        found = bound(TabularPair.random(length, seed), x, anchors, count, sigma)
        rows.append(found)
        if seed < 6:
            print(
                f"  {length}  {count}  {sigma:<5g} {found.nll:9.4f}{found.nelbo:9.4f}"
                f"{found.slack:9.4f}{found.divergence:10.4f}{found.anchor:13.4f}"
            )
    slack, apart = min(r.slack for r in rows), max(r.apart for r in rows)
    held = sum(r.slack >= -1e-9 for r in rows)
    print(f"  -log p <= NELBO holds in {held} of {NETWORKS}; smallest slack {slack:.2e} nats")
    print(f"  L_Anchor and the anchor term differ by at most {apart:.1e} nats")
    return {
        "networks": NETWORKS,
        "holds": held,
        "smallest_slack": slack,
        "anchor_terms_differ_by": apart,
    }


def complexity(home: Path) -> list[dict[str, Any]]:
    """Proposition 4.4 as an experiment."""
    print("\nProposition 4.4: tables fitted on N samples, K = 2, L = 8, d = 1")
    print("each excess is over the model's own floor; ADLM's tables are A2R's")
    print(f"  network  model  parameters  floor (nats)  exponent  N for excess < {TARGET} nats")
    panels, out = {}, []
    for shape in SHAPES:
        found = curves(shape)
        panels[shape] = [
            plots.Line(c.model, c.samples, c.excess, dashed=c.model == "ADLM") for c in found
        ]
        for c in found:
            size, needed = f"{c.parameters:>10}", f"{c.needed:>10,.0f}"
            print(f"  {shape:<8} {c.model:<6} {size}{c.floor:>14.3f}{c.exponent:>10.2f} {needed}")
            out.append(vars(c))
    plots.curves(
        home / "complexity.png",
        panels,
        "samples N",
        "loss above its floor (nats)",
        log_x=True,
        log_y=True,
    )
    return out


def em(home: Path) -> dict[str, Any]:
    """The EM view's monotone curve."""
    curve = em_curve()
    rises = sum(b > a + 1e-12 for a, b in pairwise(curve))
    print(f"\nEM view (A.3.3): {len(curve)} rounds, {rises} rises")
    print(f"  NLL a sequence {curve[0]:.4f} -> {curve[-1]:.4f} nats")
    line = plots.Line("NLL a sequence", range(len(curve)), curve)
    plots.curves(home / "em.png", {"anchors as latent variables": [line]}, "round", "NLL (nats)")
    return {"nll": curve, "rises": rises}
