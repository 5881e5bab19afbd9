"""Fifty clients at once against one after another: answers a second, refusals, memory, endings.

    python benchmarks/serve.py RUN [--clients 50] [--seconds 60] [--bodies 1000]

A real `adlm serve` of its own; every client asks for completions of one length, each with a seed of
its own, and asks again as soon as it is answered. One client first, then all of them at once. Then
clients that are killed amid their answers, a fuzzer's bodies, and a SIGTERM amid answers.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import itertools
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from bench import ServeBench

from adlm.errors import UserError, one_sentence
from tests.serve.bodies import PATHS, any_body, is_right

NEW = 32  # tokens of a completion
BODY = {"prompt": "The state of", "max_tokens": NEW}


class Client:
    """One connection, used again and again."""

    def __init__(self, port: int):
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, body: bytes, path: str = "/v1/completions") -> tuple[int, str]:
        """Return status and text of an answer."""
        self.line.request("POST", path, body)
        answer = self.line.getresponse()
        return answer.status, answer.read().decode()


def load(port: int, clients: int, seconds: float) -> tuple[float, dict[str, int]]:
    """Answers a second, and how often each status came."""
    seeds, end, found = itertools.count(), time.monotonic() + seconds, collections.Counter[str]()

    def client(_: int) -> list[int]:
        mine, statuses = Client(port), []
        while time.monotonic() < end:
            body = json.dumps({**BODY, "seed": next(seeds)}).encode()
            statuses.append(mine.ask(body)[0])
        return statuses

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        for status in itertools.chain.from_iterable(pool.map(client, range(clients))):
            found[str(status)] += 1
    return found["200"] / (time.monotonic() - began), dict(found)


def memory(pid: int) -> float:
    """MiB of a process that are in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def cpu(pid: int) -> float:
    """Seconds of computing that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def kill_clients(port: int, pid: int, count: int) -> float:
    """Have clients go away amid long answers; return the computing of the second after that."""
    body = json.dumps({**BODY, "steps": 8192, "n": 4, "sampler": "remdm-loop"}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for line in lines:
        line.sendall(head.encode() + b"\r\n\r\n" + body)
    time.sleep(0.5)
    for line in lines:
        line.close()
    time.sleep(1.0)
    before = cpu(pid)
    time.sleep(1.0)
    return cpu(pid) - before


def fuzz(port: int, count: int) -> tuple[dict[str, int], int]:
    """How often each status came, and how many answers were none that a body may get."""
    draw, found, wrong = random.Random(0), collections.Counter[str](), 0
    for number in range(count):
        path = PATHS[number % len(PATHS)]
        status, text = Client(port).ask(any_body(draw, path), path)
        found[str(status)] += 1
        wrong += not is_right(status, text)
    return dict(found), wrong


def end(port: int, server: subprocess.Popen[str], clients: int) -> tuple[float, dict[str, int]]:
    """End the server while it answers: seconds, and how often each status came."""
    found = collections.Counter[str]()

    def client(seed: int) -> None:
        body = json.dumps({**BODY, "seed": seed, "n": 2}).encode()
        found[str(Client(port).ask(body)[0])] += 1

    asked = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    for thread in asked:
        thread.start()
    time.sleep(1.0)
    began = time.monotonic()
    server.terminate()
    server.wait(30)
    seconds = time.monotonic() - began
    for thread in asked:
        thread.join()
    return seconds, dict(found)


def measure(run: str, clients: int, seconds: float, bodies: int) -> ServeBench:
    words = [sys.executable, "-m", "adlm", "serve", run, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            assert server.stdout is not None
            found = re.search(r"serving (\S+) at \S+:(\d+)/", server.stdout.readline())
            if found is None:
                raise UserError(f"{run} cannot be served")
            port = int(found[2])
            load(port, clients, min(5.0, seconds))  # warm
            alone, _ = load(port, 1, seconds)
            before = memory(server.pid)
            together, statuses = load(port, clients, seconds)
            grown = memory(server.pid) - before
            left = kill_clients(port, server.pid, clients)
            refused, wrong = fuzz(port, bodies)
            ending, ended = end(port, server, clients)
        finally:
            server.kill()
    return ServeBench(
        model=found[1],
        clients=clients,
        seconds=seconds,
        new_tokens=NEW,
        alone_per_s=alone,
        together_per_s=together,
        ratio=together / alone,
        statuses=statuses,
        memory_mib=before,
        memory_grown_mib=grown,
        cpu_after_killed=left,
        fuzzed=refused,
        fuzzed_wrongly=wrong,
        ending_seconds=ending,
        ending_statuses=ended,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--bodies", type=int, default=1000)
    parser.add_argument("--out", default="results/bench-serve.json")
    given = parser.parse_args()
    with one_sentence():
        made = measure(given.run, given.clients, given.seconds, given.bodies)
        made = made.stamped("cpu", "fp32")
        made.save(Path(given.out))
    print(made.text())


if __name__ == "__main__":
    main()
