"""Fifty clients at once against one after another: answers a second, refusals, memory.

    python benchmarks/serve.py RUN [--clients 50] [--seconds 60]

A real `adlm serve` of its own; every client asks for completions of one length, each with a seed of
its own, and asks again as soon as it is answered. One client first, then all of them at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from bench import ServeBench

from adlm.errors import UserError, one_sentence

NEW = 32  # tokens of a completion


def completion(address: str, seed: int) -> int:
    """The status of one answer."""
    body = {"prompt": "The state of", "max_tokens": NEW, "seed": seed}
    request = urllib.request.Request(f"{address}v1/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def load(address: str, clients: int, seconds: float) -> tuple[float, dict[str, int]]:
    """Answers a second, and how often each status came."""
    seeds, end, found = itertools.count(), time.monotonic() + seconds, dict[str, int]()

    def client(_: int) -> list[int]:
        statuses = []
        while time.monotonic() < end:
            statuses.append(completion(address, next(seeds)))
        return statuses

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        for status in itertools.chain.from_iterable(pool.map(client, range(clients))):
            found[str(status)] = found.get(str(status), 0) + 1
    return found.get("200", 0) / (time.monotonic() - began), found


def memory(pid: int) -> float:
    """MiB of a process that are in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def measure(run: str, clients: int, seconds: float) -> ServeBench:
    words = [sys.executable, "-m", "adlm", "serve", run, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            assert server.stdout is not None
            found = re.search(r"serving (\S+) at (\S+)", server.stdout.readline())
            if found is None:
                raise UserError(f"{run} cannot be served")
            address = found[2]
            load(address, clients, min(2.0, seconds))  # warm
            alone, _ = load(address, 1, seconds)
            before = memory(server.pid)
            together, statuses = load(address, clients, seconds)
            grown = memory(server.pid) - before
        finally:
            server.terminate()
    return ServeBench(
        model=found[1],
        clients=clients,
        seconds=seconds,
        new_tokens=NEW,
        alone_per_s=alone,
        together_per_s=together,
        statuses=statuses,
        memory_mib=before,
        memory_grown_mib=grown,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", default="results/bench-serve.json")
    given = parser.parse_args()
    with one_sentence():
        made = measure(given.run, given.clients, given.seconds).stamped("cpu", "fp32")
        made.save(Path(given.out))
    print(made.text())


if __name__ == "__main__":
    main()
