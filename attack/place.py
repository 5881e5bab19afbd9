"""Valid files of every kind: small runs, corpora, results. Attacks begin with copies of them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from adlm.locks import lock
from attack import child

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
HOME = ROOT / "build" / "attack"
WORDS = ["the", "union", "is", "strong", "and", "free", "peace", "war", "law", "states"]
SMALL = [
    "--data",
    "corpus.txt",
    "--data.tokenizer",
    "byte",
    "--data.length",
    "16",
    "--model.width",
    "16",
    "--model.heads",
    "2",
    "--train.steps",
    "2",
    "--train.batch",
    "4",
    "--train.eval_rows",
    "4",
    "--train.log_every",
    "1",
    "--train.precision",
    "fp32",
    "--train.device",
    "cpu",
]
REASON = [
    "--items",
    "24",
    "--epochs",
    "1",
    "--batch",
    "8",
    "--size",
    "pico",
    "--valid",
    "4",
    "--precision",
    "fp32",
    "--device",
    "cpu",
    "--knobs",
    "{most:3}",
]
RUNS = ("ar", "mdlm", "adlm", "bd3lm", "udlm")


FORMING = ("config.py", "data", "nn", "process", "objectives", "models", "train", "reasoning")


@cache
def source() -> str:
    """Return the hash of the code that makes a run's bits: what other code made is made anew."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    for name in FORMING:
        home = ROOT / "adlm" / name
        for path in [home] if home.is_file() else sorted(home.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def recipes() -> dict[str, list[str]]:
    """Return the command that makes each file or folder."""
    bpe = ["train", "laptop-mdlm", *SMALL, "--data.tokenizer", "bpe:300", "--out", "run-bpe"]
    cot = ["reason", "train", "arithmetic", "cot", *REASON, "--out", "run-cot"]
    stages = ["--stages", "1", "--epochs", "2", "--out", "run-acot"]
    likely = ["eval", "likelihood", "run-mdlm", "--limit", "4", "--batch", "4", "--draws", "1"]
    made = {f"run-{n}": ["train", f"laptop-{n}", *SMALL, "--out", f"run-{n}"] for n in RUNS}
    return made | {
        "run-bpe": bpe,
        "run-cot": cot,
        "run-acot": ["reason", "train", "arithmetic", "acot", *REASON, *stages],
        "exported": ["export", "run-mdlm", "--to", "exported"],
        "likelihood.json": [*likely, "--out", "likelihood.json"],
        "samples.jsonl": [
            "sample",
            "run-mdlm",
            "--n",
            "4",
            "--steps",
            "2",
            "--json",
            "samples.jsonl",
        ],
    }


def make(names: Sequence[str] = (), home: Path = HOME) -> Path:
    """Return the folder of valid files; what is named is made in it, once for this code."""
    place = home / f"place-{source()}"
    home.mkdir(parents=True, exist_ok=True)
    with lock(home / "place.lock"):
        if not (place / "tasks.jsonl").is_file():
            place.mkdir(exist_ok=True)
            texts(place)
        for name in names:
            need(name, place)
    return place


def need(name: str, place: Path) -> None:
    """Make a file or folder of the place unless it is there."""
    if (place / name).exists():
        return
    if name == "tokenizer.json":
        need("run-bpe", place)
        shutil.copy(next(place.glob("run-bpe/checkpoints/*/tokenizer.json")), place)
        return
    words = recipes()[name]
    for part in words:
        if part in recipes() and part != name:
            need(part, place)
    done(words, place)


def done(words: list[str], place: Path) -> None:
    """Run a command that must succeed."""
    ended = child.start(words, place, place.parent / "logs", environment(place)).wait(300)
    if ended.code:
        raise SystemExit(f"adlm {' '.join(words)} ended with {ended.code}: {ended.err}")


def environment(place: Path) -> dict[str, str]:
    """Return the environment of a case: its own cache, no data, no network, one thread."""
    return {
        "ADLM_CACHE": str(place / "cache"),
        "ADLM_DATA": str(place),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "HOME": str(place),
    }


def texts(place: Path) -> None:
    """Write corpora, pairs, prompts and programs in every format that is read."""
    lines = [" ".join(WORDS[(i * k + k) % 10] for k in range(1, 12)) + "." for i in range(120)]
    (place / "corpus.txt").write_text("\n".join(lines))
    with gzip.open(place / "corpus.txt.gz", "wt") as file:
        file.write("\n".join(lines))
    as_lines(place / "corpus.jsonl", [{"text": line} for line in lines])
    with (place / "corpus.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "more"], *([line, "1"] for line in lines)])
    try:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"text": lines}), place / "corpus.parquet")
    except ImportError:
        pass
    pairs = [{"prompt": f"{i}?", "answer": f"{i}!"} for i in range(60)]
    chats = [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]] * 20
    as_lines(place / "pairs.jsonl", [*pairs, *({"messages": c} for c in chats)])
    as_lines(place / "prompts.jsonl", [{"prompt": "the "}, {"prompt": "law of"}])
    task = {
        "task_id": "HumanEval/0",
        "prompt": "def one():\n",
        "canonical_solution": "    return 1\n",
        "test": "def check(f):\n    assert f() == 1\n",
        "entry_point": "one",
    }
    for name in ("study", "study-reasoning"):
        shutil.copytree(FIXTURES / name, place / name, dirs_exist_ok=True)
        shutil.copy(FIXTURES / f"{name}.json", place)
    as_lines(place / "tasks.jsonl", [task, {**task, "task_id": "HumanEval/1"}])


def as_lines(path: Path, records: list[object]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def copy(names: Sequence[str], to: Path, home: Path = HOME) -> None:
    """Lay out copies of some of the files in a new folder."""
    place = make(names, home)
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for name in names:
        path = place / name
        if path.is_dir():
            shutil.copytree(path, to / name)
        elif path.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to / name)


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return every file and folder with its kind, size and time: a refusal changes none."""
    found = {}
    for home, folders, files in os.walk(folder):
        if Path(home) == folder and "cache" in folders:
            folders.remove("cache")
        for name in [*folders, *files]:
            path = os.path.join(home, name)
            about = os.lstat(path)
            whole = (about.st_mode, about.st_size, about.st_mtime_ns)
            is_folder = os.path.isdir(path)
            found[os.path.relpath(path, folder)] = (about.st_mode, 0, 0) if is_folder else whole
    return found
