"""`adlm eval samples`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from adlm import api
from adlm import device as devices
from adlm.config import check, to_dict
from adlm.data.corpus import open_rows
from adlm.eval import samples
from adlm.eval.judge import SMALL, Features, Judge, Sentences
from adlm.eval.mauve import FEWEST, mauve
from adlm.eval.samples import Texts
from adlm.models import checkpoint
from adlm.results import stamped, write_json
from adlm.samplers import template
from adlm.samplers.generate import Settings


def start(
    checkpoint_or_samples: str,
    settings: Settings = Settings(n=128),
    references: str | None = None,
    split: Literal["valid", "test"] = "test",
    judge: str = SMALL,
    features: Literal["judge", "minilm"] = "judge",
    mauve_seeds: int = 5,
    out: str | None = None,
) -> None:
    """Judge texts: generative perplexity, entropy, distinct n-grams, repetition and MAUVE together.

    Each figure alone misleads: a model that repeats itself has a low generative perplexity. Real
    texts of the same length are judged beside, and for MAUVE against other real texts.

    Args:
        checkpoint_or_samples: A checkpoint or run, which is sampled, or a jsonl file of samples.
        settings: How texts are written, if from a checkpoint.
        references: Real texts for a jsonl file of samples, as jsonl with a "text" each; a
            checkpoint's are rows of its own data.
        split: Part of the data that the references are from.
        judge: smollm2 (offline), a causal LM's folder or hub name (gpt2-large is the paper's), or
            none.
        features: What MAUVE sees: the judge's last hidden state, or MiniLM sentence embeddings.
        mauve_seeds: Seeds of the k-means that MAUVE runs.
        out: Result file; eval/samples.json of the run, or beside the samples, by default.
    """
    check(mauve_seeds >= 1, "--mauve_seeds", mauve_seeds, "at least 1")
    device = devices.pick(settings.device)
    given = Path(checkpoint_or_samples)
    judged = None if judge == "none" else Judge(judge, device)  # is it installed?
    view: Features | None = judged if features == "judge" else Sentences(device)
    if given.is_file():
        ours = samples.read(given)
        real = samples.read(Path(references)) if references else None
        if real and real.about["unit"] != ours.about["unit"]:  # only words can be compared
            ours = samples.read(given, by_words=True)
            real = samples.read(Path(str(references)), by_words=True)
        path = Path(out) if out else given.with_suffix(".quality.json")
    else:
        check(settings.n >= 2, "--n", settings.n, "at least 2")
        ours, real = written(checkpoint_or_samples, settings, split)
        path = (
            Path(out) if out else checkpoint.load(checkpoint_or_samples).run / "eval/samples.json"
        )
    result: dict[str, Any] = {"command": "eval samples", **ours.about, "seed": settings.seed}
    rows = {"samples": ours} | ({"real texts": real} if real else {})
    least = min(len(texts.texts) for texts in rows.values())
    result["rows"] = {name: samples.plain(texts, least) for name, texts in rows.items()}
    keep(path, result, device, settings)
    if judged:
        result["judge"] = judged.about
        for name, texts in rows.items():
            result["rows"][name]["generative_ppl"] = judged.score(texts.texts).ppl
            keep(path, result, device, settings)
    if view and real:
        compare(result, ours, real, view, mauve_seeds, settings.seed)
        keep(path, result, device, settings)
    show(result)
    print(f"written to {path}")


def compare(
    result: dict[str, Any], ours: Texts, real: Texts, view: Features, seeds: int, seed: int
) -> None:
    """MAUVE of samples against real texts, and of real against real, with as many a side."""
    count = min(len(ours.texts), len(real.texts) // 2)
    if count < FEWEST:
        result["no_mauve"] = f"MAUVE needs {FEWEST} samples and twice as many real texts"
        return
    result["features"] = view.about
    order = np.random.default_rng(seed).permutation(len(real.texts))
    points = view.features([real.texts[i] for i in order[: 2 * count]])
    made = view.features(ours.texts[:count])
    result["rows"]["samples"]["mauve"] = mauve(made, points[:count], seeds)
    result["rows"]["real texts"]["mauve"] = mauve(points[count:], points[:count], seeds)


def written(place: str, settings: Settings, split: str) -> tuple[Texts, Texts]:
    """Texts of a checkpoint, and twice as many real ones of the same length."""
    model = api.load(place, settings.device)
    length = model.config.data.length
    rows = open_rows(model.config.data, split, model.vocab)
    least = length if model.config.data.packing == "wrap" else 2
    real = samples.references(rows, model.vocab, 2 * settings.n, least, settings.seed)
    made = model.write(template.after("", length, model.vocab), settings)
    about = {
        "checkpoint": str(place),
        "checkpoint_hash": checkpoint.load(place).hash,
        "config": to_dict(model.config),
        "data_hash": rows.store.key,
        "sampling": {**to_dict(settings), "sampler": made.sampler},
        "nfe": float(made.nfe.mean()),
        "seconds": made.seconds,
        "examples": made.texts[:8],
    }
    return Texts(made.texts, made.ids, about), real


def keep(path: Path, result: dict[str, Any], device: str, settings: Settings) -> None:
    write_json(path, stamped(result, device, devices.precision(settings.precision, device)))


def show(result: dict[str, Any]) -> None:
    """The table and what must be known to read it."""
    print(samples.table(list(result["rows"].items())))
    if "judge" in result:
        print(f"generative perplexity by {result['judge']}; entropy in nats")
    if "no_mauve" in result:
        print(result["no_mauve"])
    for name, row in result["rows"].items():
        if "mauve" in row:
            what = "samples against real texts" if name == "samples" else "real against real"
            note = row["mauve"]["note"]
            print(f"MAUVE, {what}, {result['features']}{'; ' + note if note else ''}")
