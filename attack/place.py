"""Valid files of every kind: small runs, corpora, results. Each attack begins with copies of them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import shutil
from pathlib import Path

from attack import child

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "attack"
WORDS = "the union is strong and free peace war law states".split()
SMALL = (
    "--data corpus.txt --data.tokenizer byte --data.length 16 --model.width 16 --model.heads 2 "
    "--train.steps 2 --train.batch 4 --train.eval_rows 4 --train.log_every 1 "
    "--train.precision fp32 --train.device cpu"
).split()
REASON = (
    "--items 24 --epochs 1 --batch 8 --size pico --valid 4 --precision fp32 --device cpu "
    "--knobs {most:3}"
).split()
RUNS = ("ar", "mdlm", "adlm", "bd3lm", "udlm")


def source() -> str:
    """Return the hash of the package's code: what was made by other code is made anew."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "adlm").rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def make() -> Path:
    """Return the folder of valid files, made once for each version of the code."""
    place = HOME / f"place-{source()}"
    if (place / "done").is_file():
        return place
    for old in HOME.glob("place-*"):
        shutil.rmtree(old)
    place.mkdir(parents=True)
    texts(place)
    for name in RUNS:
        done(["train", f"laptop-{name}", *SMALL, "--out", f"run-{name}"], place)
    run = ["train", "laptop-mdlm", *SMALL, "--data.tokenizer", "bpe:300", "--out", "run-bpe"]
    done(run, place)
    shutil.copy(next(place.glob("run-bpe/checkpoints/*/tokenizer.json")), place)
    done(["reason", "train", "arithmetic", "cot", *REASON, "--out", "run-cot"], place)
    done(["reason", "train", "arithmetic", "acot", *REASON, "--stages", "1", "--epochs", "2", "--out", "run-acot"], place)
    done(["export", "run-mdlm", "--to", "exported"], place)
    likely = ["--limit", "4", "--batch", "4", "--draws", "1"]
    done(["eval", "likelihood", "run-mdlm", *likely, "--out", "likelihood.json"], place)
    done(["sample", "run-mdlm", "--n", "4", "--steps", "2", "--json", "samples.jsonl"], place)
    for name in ("study", "study-reasoning"):
        fixtures = ROOT / "tests" / "fixtures"
        shutil.copytree(fixtures / name, place / name)
        shutil.copy(fixtures / f"{name}.json", place)
    (place / "done").touch()
    return place


def done(words: list[str], place: Path) -> None:
    """Run a command that must succeed."""
    ended = child.start(words, place, HOME / "logs", environment(place)).wait(120)
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
    as_lines(place / "tasks.jsonl", [task, {**task, "task_id": "HumanEval/1"}])


def as_lines(path: Path, records: list[object]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def copy(place: Path, names: list[str], to: Path) -> None:
    """Lay out copies of some of the files in a new folder."""
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
    """Return every file and folder with its kind, size and inode: what a refusal must not change."""
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
