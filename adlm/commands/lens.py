"""`adlm eval anchors`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from adlm import api
from adlm import device as devices
from adlm.config import check, to_dict
from adlm.data.corpus import open_rows
from adlm.data.pack import Rows
from adlm.errors import UserError
from adlm.eval import lens
from adlm.eval.judge import Judge
from adlm.eval.samples import Texts
from adlm.eval.samples import plain as plain_figures
from adlm.models import checkpoint
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser
from adlm.objectives.likelihood import evaluator, score, spread
from adlm.process.anchors import Anchors
from adlm.progress import console
from adlm.results import stamped, write_json
from adlm.samplers import template
from adlm.samplers.generate import Settings
from adlm.types import Batch
from adlm.viz.plots import Line, curves, require

RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9)
DIALS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


def start(
    checkpoint_or_run: str,
    plain: str | None = None,
    split: Literal["valid", "test"] = "test",
    rows: int = 256,
    draws: int = 2,
    texts: int = 16,
    judge: str = "none",
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "bf16", "fp32"] = "fp32",
    out: str | None = None,
) -> None:
    """How good are the anchors, and how far does a poor anchor harm the output?

    Accuracy, nats and calibration of the anchor network and the denoiser by masking ratio; which
    tokens are anchors; and the bound and the samples when anchors are damaged at the bridge: noise,
    shuffled positions, forced wrong tokens, silence.

    Args:
        checkpoint_or_run: A checkpoint or run with an anchor network.
        plain: A checkpoint or run of a plain MDLM of the same vocabulary, to compare with.
        split: Which part of the data.
        rows: Rows that are looked at, spread evenly.
        draws: Monte-Carlo draws a row of the bound.
        texts: Texts sampled at each damage; 0 = none.
        judge: Judge of their generative perplexity: smollm2, a causal LM, or none.
        seed: Seed of masks, damage and samples.
        device: auto, cpu, mps, cuda or cuda:N.
        precision: fp32 by default; bf16 is faster and less exact.
        out: Result file; eval/anchors.json of the run by default, two plots (.png) beside it.
    """
    check(rows >= 1, "--rows", rows, "at least 1")
    check(draws >= 1, "--draws", draws, "at least 1")
    check(texts >= 0 and texts != 1, "--texts", texts, "0, or at least 2")
    check(0 <= seed < 2**31, "--seed", seed, "in [0, 2^31)")
    require()
    model = api.load(checkpoint_or_run, device)
    net = model.network
    if not isinstance(net, Anchored):
        raise UserError(f"{checkpoint_or_run} has no anchor network: its objective is "
                        f"{model.config.objective}")  # fmt: skip
    if model.config.process.conditioned:
        raise UserError("models that see the noise level are not supported")
    if net.causal:
        raise UserError("anchors are looked at under masks: an A2R checkpoint has none")
    judged = None if judge == "none" else Judge(judge, model.device)
    how = devices.precision(precision, model.device)
    nets: dict[str, Denoiser] = {"denoiser": net}
    if plain:
        other = api.load(plain, device)
        if other.vocab.hash != model.vocab.hash or other.network.causal:
            raise UserError(f"{plain} is not a masked diffusion model of the same vocabulary")
        nets["plain model"] = other.network
    data = open_rows(model.config.data, split, model.vocab)
    index = spread(len(data), rows)
    batches = [data.batch(part) for part in np.array_split(index, max(1, len(index) // 64))]
    rule = Anchors(model.config.anchor, model.vocab)
    table = model.counts
    saved = checkpoint.load(checkpoint_or_run)
    path = Path(out) if out else saved.run / "eval" / "anchors.json"
    mask = model.vocab.mask
    result: dict[str, Any] = {
        "command": "eval anchors",
        "checkpoint": str(checkpoint_or_run),
        "checkpoint_hash": saved.hash,
        "plain": plain,
        "config": to_dict(model.config),
        "data_hash": data.store.key,
        "split": split,
        "rows": len(index),
        "seed": seed,
        "bands": lens.bands(batches, rule, table),
    }
    console.print("predictions by masking ratio")
    result["by_ratio"] = lens.by_ratio(
        nets, batches, rule, table, mask, list(RATIOS), seed, model.device, how
    )
    write_json(path, stamped(result, model.device, how))
    result["damage"] = []
    for name in lens.DAMAGES:
        for dial in DIALS:
            if dial == 0 and result["damage"]:
                result["damage"].append({**result["damage"][0], "damage": name})
                continue
            console.print(f"damage: {name} {dial:g}")
            found = harm(model, net, name, dial, data, index, batches, draws, texts, seed, how)
            if judged and found.get("examples"):
                found["generative_ppl"] = judged.score(found["examples"]).ppl
            result["damage"].append(found)
            write_json(path, stamped(result, model.device, how))
    first, *others = result["damage"]
    clean = [first, *(d for d in others if d["dial"] > 0)]  # the undamaged point counts once
    accuracy = [d["anchor_accuracy"] for d in clean]
    result["correlation_nll"] = lens.correlation(accuracy, [d["nll"] for d in clean])
    write_json(path, stamped(result, model.device, how))
    draw(result, path.with_suffix(".png"))
    show(result)
    print(f"written to {path}, with {path.stem}.png and {path.stem}-ratio.png beside it")


def harm(
    model: api.Model,
    net: Anchored,
    name: str,
    dial: float,
    data: Rows,
    index: np.ndarray,
    batches: list[Batch],
    draws: int,
    texts: int,
    seed: int,
    precision: str,
) -> dict[str, Any]:
    """Anchor accuracy, bound and samples of the model with its anchors damaged."""
    objective = evaluator(model.config, model.vocab)
    rule, table = Anchors(model.config.anchor, model.vocab), model.counts
    with lens.damaged(net, name, dial, seed) as bridge:
        accuracy = lens.anchor_accuracy(
            net, bridge, batches, rule, table, model.vocab.mask, seed, model.device
        )
        found = score(
            net, objective, data, index, draws, seed, 64, model.device, precision, quiet=True
        )
        entry: dict[str, Any] = {
            "damage": name,
            "dial": dial,
            "anchor_accuracy": accuracy,
            "nll": found.nll,
            "ppl": found.ppl,
            "se_nll": None if np.isnan(found.se) else found.se,
        }
        if texts:
            length = model.config.data.length
            how = Settings(n=texts, seed=seed, precision=precision, device=model.device)
            made = model.write(template.after("", length, model.vocab), how)
            figures = plain_figures(Texts(made.texts, made.ids, {}))
            entry |= {"entropy": figures["entropy"]["mean"], "examples": made.texts}
    return entry


def draw(result: dict[str, Any], path: Path) -> None:
    """Accuracy by masking ratio, and the bound against anchor accuracy."""
    left = []
    for network in dict.fromkeys(r["network"] for r in result["by_ratio"]):
        chosen = [r for r in result["by_ratio"] if r["network"] == network]
        accuracy = [r["anchors"]["accuracy"] or 0.0 for r in chosen]
        left.append(Line(network, [r["ratio"] for r in chosen], accuracy))
    right = []
    for name in dict.fromkeys(d["damage"] for d in result["damage"]):
        chosen = [d for d in result["damage"] if d["damage"] == name]
        right.append(Line(name, [d["dial"] for d in chosen], [d["ppl"] for d in chosen]))
    curves(path.with_name(f"{path.stem}-ratio.png"), {"accuracy at masked anchors": left},
           "share masked", "accuracy")  # fmt: skip
    curves(path, {"damaged anchors": right}, "dial", "PPL (upper bound)", log_y=True)


def show(result: dict[str, Any]) -> None:
    print("| masked | network | accuracy at anchors | nats | calibration error | accuracy, all |")
    print("| --- | --- | --- | --- | --- | --- |")
    for r in result["by_ratio"]:
        a = r["anchors"]
        if a["accuracy"] is not None:
            print(
                f"| {r['ratio']:.0%} | {r['network']} | {a['accuracy']:.3f} | {a['nats']:.3f} | "
                f"{a['calibration_error']:.3f} | {r['all']['accuracy']:.3f} |"
            )
    print("\n| damage | dial | anchor accuracy | PPL | entropy |\n| --- | --- | --- | --- | --- |")
    for d in result["damage"]:
        entropy = "" if d.get("entropy") is None else f"{d['entropy']:.2f}"
        print(
            f"| {d['damage']} | {d['dial']:g} | {d['anchor_accuracy']:.3f} | ≤ {d['ppl']:.2f} "
            f"| {entropy} |"
        )
    found = [b["share_anchors"] for b in result["bands"]]
    shares = ", ".join("-" if share is None else f"{share:.0%}" for share in found)
    print(f"\nanchors among tokens, from the commonest fifth of the text to the rarest: {shares}")
    if result["correlation_nll"] is not None:
        print(f"correlation of anchor accuracy and nats a token: {result['correlation_nll']:.2f}")
