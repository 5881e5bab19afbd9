"""Bodies of requests that are nearly right or not at all, and what an answer to them must be."""

from __future__ import annotations

import json
import random
from pathlib import Path

from adlm.serve.messages import CompletionRequest, InfillRequest, NllRequest, TraceRequest

PATHS = ("/v1/completions", "/infill", "/nll", "/trace")
PROMPT = {"prompt": "a", "max_tokens": 4}


def any_value(random: random.Random, depth: int = 0) -> object:
    plain = [
        None,
        True,
        -1,
        0,
        3,
        10**30,
        0.5,
        -1e308,
        "",
        "a",
        "[MASK:3]",
        "\ud800",
        "\x00",
        "é" * 9,
    ]
    kind = random.randrange(8) if depth < 3 else 0
    if kind == 6:
        return [any_value(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 7:
        return {str(any_value(random, 9)): any_value(random, depth + 1) for _ in range(3)}
    return random.choice(plain)


def any_body(random: random.Random, path: str) -> bytes:
    """A body that is nearly right, or not at all."""
    kinds = (CompletionRequest, InfillRequest, NllRequest, TraceRequest)
    fields = list(dict(zip(PATHS, kinds, strict=True))[path].__struct_fields__)
    right = {"/infill": {"text": "a[MASK]"}, "/nll": {"text": "ab", "draws": 2}}
    body: object = right.get(path, PROMPT) | {
        random.choice(fields): any_value(random) for _ in range(random.randrange(3))
    }
    if random.random() < 0.1:
        body = any_value(random)
    data = json.dumps(body).encode()
    if random.random() < 0.1:
        at = random.randrange(len(data))
        data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    return data


def is_right(status: int, text: str) -> bool:
    """Is it an answer, or a refusal of one sentence that shows nothing of the server's inside?"""
    if status == 200:
        return "event: error" not in text
    said = json.loads(text)["error"]["message"]
    hidden = ("\n", "Traceback", str(Path.home()))
    return 400 <= status < 500 and bool(said) and not any(h in said for h in hidden)
