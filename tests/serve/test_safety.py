"""Who may ask, for how much, and what bad input gets: one sentence."""

from __future__ import annotations

import json
import random
import socket
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from adlm.serve.limits import ServeLimits
from tests.serve.bodies import PATHS, PROMPT, any_body, is_right
from tests.serve.conftest import running, served


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"Host": "evil.example"}, "does not answer for the host 'evil.example'"),
        ({"Host": "127.0.0.1.evil.example:8000"}, "does not answer"),
        ({"Host": "192.168.1.5"}, "does not answer"),
        ({"Origin": "http://evil.example"}, "a page of another site"),
        ({"Origin": "null"}, "a page of another site"),
        ({"Sec-Fetch-Site": "cross-site"}, "a page of another site"),
    ],
)
def test_another_site_cannot_drive_it(server, headers, sentence):
    status, said = server.refused("/v1/models", **headers)
    assert (status, sentence in said) == (403, True)


def test_its_own_page_can(server):
    assert server.ask("/v1/models", Origin=server.address)[0] == 200
    assert server.ask("/v1/models", Host="localhost:1")[0] == 200


def test_beyond_loopback_a_token_is_needed():
    with running(served("ar"), host="0.0.0.0", token="secret") as server:
        assert server.refused("/v1/models")[0] == 401
        assert server.refused("/v1/models", Authorization="Bearer secre")[0] == 401
        assert server.refused("/v1/models", Authorization="Bearer \u00e9")[0] == 401
        assert server.ask("/v1/models", Authorization="Bearer secret")[0] == 200
        assert server.ask("/")[0] == 200
        assert server.refused("/", Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/infill", b"{", "must be a JSON object"),
        ("/infill", b"\xff\xfe", "must be a JSON object"),
        ("/infill", b"[" * 100_000, "the body: expected object, got array"),
        ("/infill", b'{"text": ' * 50_000, "text: expected str, got object"),
        ("/infill", b'{"x": ' * 50_000, "unknown field x"),
        ("/infill", {"text": 3}, "text: expected str, got int"),
        ("/infill", {"text": "a"}, "the template has no hole"),
        ("/infill", {"text": "[MASK:0]"}, "at least 1 token"),
        ("/infill", {"text": "[MASK:65]"}, "65 tokens, and only 64 fit"),
        ("/infill", {"text": "[MASK:99999999999]"}, "more than 2048 tokens"),
        ("/infill", {"text": "[MASK]", "colour": 1}, "unknown field colour"),
        ("/infill", {"text": "[MASK]", "sampler": "os:system"}, "has no sampler 'os:system'"),
        (
            "/infill",
            {"text": "[MASK]", "sampler": "blocks", "policy": {"inner": "os:system"}},
            "has no sampler 'os:system'",
        ),
        ("/infill", {"text": "[MASK]", "policy": {"eta": 1}}, "has no option 'eta'"),
        ("/infill", {"text": "[MASK]", "n": 65}, "n must be at most 64"),
        ("/infill", {"text": "[MASK]", "steps": 10**5}, "steps must be at most"),
        ("/infill", {"text": "[MASK]", "temperature": 1e-9}, "temperature must be 0, or from"),
        ("/infill", {"text": "[MASK]", "cache": "all"}, "cache: invalid enum value"),
        ("/infill", {"text": "[MASK]", "cache": "dual", "model": "ar"}, "for models of whole rows"),
        ("/infill", {"text": "[MASK]", "goal": "fast", "sampler": "confidence"}, "leave out"),
        ("/infill", {"text": "[MASK]", "anchor_every": 2, "model": "mdlm"}, "anchored diffusion"),
        ("/v1/completions", {"prompt": []}, "at least one"),
        ("/v1/completions", {"max_tokens": 0}, "max_tokens: expected int >= 1"),
        ("/v1/completions", {"max_tokens": 10**6}, "max_tokens must be at most 2048"),
        ("/v1/completions", {"prompt": ["a"] * 65}, "65 texts are asked for"),
        ("/v1/completions", {"echo": True}, "echo is not served"),
        ("/v1/completions", {"stop": ["a"] * 5}, "at most four"),
        ("/nll", {"text": " "}, "no space"),
        ("/nll", {"text": "a" * 5000}, "at most 2048 are scored"),
        ("/trace", {}, "give one of text, prompt and template"),
        ("/trace", {"template": [None, -1]}, "token ids from 0 to"),
        ("/trace", {"template": [1, 2]}, "no hole"),
        ("/trace", {"prompt": "a" * 64}, "no room for a token"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(server, path, body, sentence):
    status, said = server.refused(path, body)
    assert (status, sentence in said) == (400, True), said
    assert "\n" not in said
    assert "--" not in said


def test_paths_and_methods_that_are_not_there_are_refused_too(server):
    assert server.refused("/nowhere")[0] == 404
    assert server.refused("/../../etc/passwd")[0] == 404
    assert server.refused("/infill")[0] == 405


@pytest.mark.parametrize("said", ["Content-Length: 1048577", "Transfer-Encoding: chunked"])
def test_a_large_body_is_refused_before_it_is_read(server, said):
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(f"POST /infill HTTP/1.1\r\nHost: localhost\r\n{said}\r\n\r\n".encode())
        if "chunked" in said:
            line.sendall(b"100001\r\n" + b"x" * 0x100001)  # one byte too many, and no end
        assert b" 413 " in line.recv(100)


def test_what_is_shown_is_never_html(server):
    status, text = server.ask("/infill", {"text": "[MASK]<script>", "model": "<script>"})
    assert status == 404
    assert json.loads(text)["error"]["param"] == "model"
    policy = "default-src 'none'; script-src 'self'"
    with urllib.request.urlopen(server.address) as page:
        assert page.headers["Content-Security-Policy"].startswith(policy)


def test_a_full_queue_answers_429_and_time_is_limited(slowly):
    limits = ServeLimits(queue=4, seconds=1, texts=2)
    with running(served("ar", limits=limits), limits) as server:
        slowly(0.01)
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda _: server.ask("/v1/completions", PROMPT)[0], range(12)))
        assert set(found) == {200, 429}
        slowly(0.5)
        began = time.monotonic()
        assert server.refused("/v1/completions", PROMPT) == (
            504,
            "the answer took too long: ask for less, or later",
        )
        assert time.monotonic() - began < 3
        assert server.idle()


def test_a_client_that_goes_away_stops_its_work(slowly):
    with running(served("ar")) as server:
        slowly(0.1)
        host, port = server.address.removeprefix("http://").split(":")
        for extra in ({}, {"stream": True}):
            body = json.dumps({"prompt": "a", "max_tokens": 60, **extra}).encode()
            with socket.create_connection((host, int(port)), timeout=10) as line:
                head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                line.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
                while not server.engine.busy:
                    time.sleep(0.01)
            assert server.idle(2.0)  # the whole text would take six seconds


def fuzz(server, count: int, seed: int) -> None:
    draw, found = random.Random(seed), {}
    for number in range(count):
        path = PATHS[number % 4]
        data = any_body(draw, path)
        status, text = server.ask(path, data)
        found[status] = found.get(status, 0) + 1
        assert is_right(status, text), (path, data, text)
    assert found[400] > count / 4
    assert found[200] > count / 20


def test_whatever_a_body_holds_the_answer_is_one_sentence(server):
    fuzz(server, 200, 1)


@pytest.mark.slow
def test_a_thousand_bodies(server):
    fuzz(server, 1000, 2)
