"""Tokenising a corpus in several processes, killed twice; and how fast batches are made of it.

    python benchmarks/data.py [--bytes 2000000000] [--workers 2]

The corpus is the default one's paragraphs, shuffled again and again into files of text in a
temporary folder. It is tokenised once undisturbed and once with two kills (-9); the two caches
must have the same bytes. Memory is the largest resident set of each process (VmHWM, which counts
the pages of mapped files too). Rates are by the clock, which other work on the machine slows, and
by the CPU time of the encoding processes, which it slows less. Paragraphs that come again make the
words between spaces known, which encoding profits from: the rate of the first pass over the default
corpus, where most are new, is beside it, and that of the tokenizer without them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from adlm.config import DataConfig
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.encode import chunks, encode
from adlm.data.loader import Ahead, Order
from adlm.data.sources import open_source
from adlm.results import Stamp, write_json
from adlm.types import Batch

TOKENISE = """
import json, sys, time
from adlm.config import DataConfig
from adlm.data import cache
from adlm.data.corpus import open_vocab
from adlm.data.sources import open_source
name, tokenizer, workers = sys.argv[1:]
config = DataConfig(name=name, tokenizer=tokenizer)
source, vocab = open_source(config, "train"), open_vocab(config)
began = time.monotonic()
store = cache.load(source, vocab, int(workers))
took = time.monotonic() - began
print(json.dumps({"tokens": len(store.tokens), "bytes": store.text_bytes, "seconds": took}))
"""
FILES = 8


def make_corpus(home: Path, size: int) -> None:
    """Write paragraphs of the default corpus, in ever new orders, into FILES files."""
    texts = open_source(DataConfig(), "train").documents()
    paragraphs = [p.encode() + b"\n" for text in texts for p in text.split("\n") if p.strip()]
    draw = random.Random(0)
    for number in range(FILES):
        written = 0
        with (home / f"train-{number}.txt").open("wb") as out:
            while written < size / FILES:
                draw.shuffle(paragraphs)
                for paragraph in paragraphs:
                    written += out.write(paragraph)
                    if written >= size / FILES:
                        break
    for name in ("valid", "test"):
        (home / f"{name}.txt").write_bytes(b"".join(paragraphs[:200]))


def peak(pid: int) -> float:
    """Most memory that a process has had, in MiB; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


def children(pid: int) -> list[int]:
    """The processes that a process has started, of all its threads."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    try:
        return [int(word) for path in found for word in path.read_text(encoding="utf-8").split()]
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has had; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tokenise(corpus: Path, home: Path, given: argparse.Namespace, kill_at: float = 1.0) -> dict:
    """Tokenise in processes of their own; kill them when a share `kill_at` of the text is done."""
    words = [sys.executable, "-c", TOKENISE, str(corpus), given.tokenizer, str(given.workers)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ, "ADLM_CACHE": str(home)}
    )
    began, most, workers, spent = time.monotonic(), 0.0, {}, {}
    while process.poll() is None:
        most = max(most, peak(process.pid))
        workers |= {pid: max(workers.get(pid, 0), peak(pid)) for pid in children(process.pid)}
        for pid in [process.pid, *children(process.pid)]:
            spent[pid] = max(spent.get(pid, 0.0), cpu_seconds(pid))
        if kill_at < 1 and finished(home) >= kill_at * given.bytes:
            process.kill()
        time.sleep(0.2)
    told = process.communicate()[0]
    if process.returncode not in (0, -9):
        sys.exit(f"tokenising failed with {process.returncode}")
    memory = {"reader_mib": most, "worker_mib": sorted(workers.values())}
    cpu = {"reader_s": spent.pop(process.pid), "worker_s": sorted(spent.values())}
    said = json.loads(told) if told else {"done_bytes": finished(home)}
    return {"seconds": time.monotonic() - began, "peak": memory, "cpu": cpu, **said}


def finished(home: Path) -> int:
    """Bytes of text whose parts are on the disk."""
    for draft in home.glob("tokens/*.part/draft.json"):
        try:
            return json.loads(draft.read_text(encoding="utf-8"))["bytes"]
        except (OSError, ValueError):
            break
    return 0


def digests(home: Path) -> dict[str, str]:
    """The hash of each file of the one store."""
    files = sorted(p for p in home.glob("tokens/*/*") if p.is_file())
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in files}


def encoding(tokenizer: str) -> dict:
    """MB of text a second in one process: the default corpus, seen first and again; CPU time."""
    config = DataConfig(tokenizer=tokenizer)
    vocab, found = open_vocab(config), {}
    batches = list(chunks(open_source(config, "train").documents()))
    size = sum(len(text.encode()) for texts in batches for text in texts)
    some = batches[:4]
    ways = {
        "first_pass": (batches, lambda texts: encode(vocab, texts)),
        "second_pass": (batches, lambda texts: encode(vocab, texts)),
        "tokenizer_alone": (some, vocab.encode),
    }
    for name, (part, work) in ways.items():
        began = time.process_time()
        for texts in part:
            work(texts)
        share = sum(len(text.encode()) for texts in part for text in texts)
        found[f"{name}_mb_per_s"] = share / 1e6 / (time.process_time() - began)
    return {"corpus_bytes": size, **found}


def loading(corpus: Path, home: Path, tokenizer: str, steps: int = 40) -> dict:
    """Tokens a second of making batches of 512 x 1024, in a shuffled order; and orders alone."""
    os.environ["ADLM_CACHE"] = str(home)
    config = DataConfig(name=str(corpus), tokenizer=tokenizer, length=1024)
    rows = open_rows(config, "train", open_vocab(config))
    order = Order(len(rows), 512, seed=0)
    rate = {
        "rows": len(rows),
        "shuffle": order.shuffle,
        "files": len(list(home.glob("tokens/*/t*"))),
    }

    def make(step: int) -> Batch:
        return rows.batch(order.step(step))

    make(0)
    began = time.perf_counter()
    for step in range(1, steps):
        make(step)
    rate["tokens_per_s"] = (steps - 1) * 512 * 1024 / (time.perf_counter() - began)
    ahead = Ahead(make, last=steps)
    ahead.get(0)
    waited = 0.0
    for step in range(1, steps):
        time.sleep(0.3)  # a step of training
        began = time.perf_counter()
        ahead.get(step)
        waited += time.perf_counter() - began
    rate["waiting_ms_a_step_of_300_ms"] = 1000 * waited / (steps - 1)
    return rate


def orders() -> list[dict]:
    """What the order of a pass takes, by the number of rows: a first step, and one after it."""
    found = []
    for rows, shuffle in ((10**7, "array"), (10**7, "keyed"), (10**10, "keyed")):
        order, took = Order(rows, 512, 0, shuffle), []
        for step in (0, 1):
            began = time.perf_counter()
            order.step(step)
            took.append(1000 * (time.perf_counter() - began))
        held = order._permutation.nbytes / 2**20
        found.append({"rows": rows, "shuffle": shuffle, "held_mib": held, "first_ms": took[0]})
        found[-1]["next_ms"] = took[1]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tokenizer", default="gpt2")
    parser.add_argument("--beside", default="nothing", help="what else ran, for the file")
    parser.add_argument("--out", default="results/bench-data.json")
    given = parser.parse_args()
    print(alone := encoding(given.tokenizer), flush=True)
    with tempfile.TemporaryDirectory() as place:
        corpus = Path(place, "corpus")
        corpus.mkdir()
        make_corpus(corpus, int(given.bytes))
        size = sum(p.stat().st_size for p in corpus.glob("train*"))
        homes = [Path(place, name) for name in ("whole", "killed")]
        print(whole := tokenise(corpus, homes[0], given), flush=True)
        killed = []
        for share in (0.3, 0.6, 1.0):
            killed.append(tokenise(corpus, homes[1], given, share))
            print(killed[-1], flush=True)
        same = digests(homes[0]) == digests(homes[1])
        loader = loading(corpus, homes[1], given.tokenizer)
        print(loader, flush=True)
    rates = {f"{k}_per_s": whole[k] / whole["seconds"] for k in ("tokens", "bytes")}
    busy = sum(whole["cpu"]["worker_s"])  # what a machine with nothing else to do would give
    rates |= {f"{k}_per_worker_cpu_s": whole[k] / busy for k in ("tokens", "bytes")}
    result = {
        "command": sys.argv,
        "beside": given.beside,
        "corpus_bytes": size,
        "tokenizer": given.tokenizer,
        "workers": given.workers,
        "encoding_one_process": alone,
        "undisturbed": {**whole, **rates},
        "killed_twice": killed,
        "same_bytes": same,
        "loader": loader,
        "orders": orders(),
    }
    write_json(Path(given.out), {**result, **vars(Stamp.now("cpu", "none"))})
    if not same:
        sys.exit("the two caches differ")


if __name__ == "__main__":
    main()
