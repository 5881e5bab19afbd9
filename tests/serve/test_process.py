"""The command itself: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from adlm.cli import main
from adlm.models import shipped
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("secret-place")
    config = make_config(small_corpus(home), "mdlm", steps=2)
    train(replace(config, data=replace(config.data, length=128)), home / "my-run")
    return home / "my-run"


def completion(address: str, steps: int) -> tuple[int, str]:
    body = {"prompt": "a", "max_tokens": 100, "steps": steps, "sampler": "remdm-loop"}
    request = urllib.request.Request(f"{address}v1/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_sigterm_ends_it_within_five_seconds_with_answers_finished(run):
    words = [sys.executable, "-m", "adlm", "serve", str(run), str(run), "--port", "0"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"serving my-run, my-run-2 at (http://127\.0\.0\.1:\d+/)$", line)[1]
        assert completion(address, 2)[0] == 200
        with urllib.request.urlopen(f"{address}v1/models") as models:
            assert "secret-place" not in models.read().decode()
        found: dict[int, tuple[int, str]] = {}
        for steps in (200, 8192):  # one that is done in time, and one that is not
            give = threading.Thread(
                target=lambda s=steps: found.update({s: completion(address, s)})
            )
            give.start()
            time.sleep(0.1)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        assert time.monotonic() - began < 5
        give.join(5)
        assert found[200][0] == 200
        assert found[8192][0] == 503
        assert "the server is ending" in found[8192][1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "cannot be opened"),
        (["--limits.queue", "0"], "--limits.queue must be at least 1"),
        (["--host", "nowhere.invalid"], "cannot be opened"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(run, capsys, words, sentence):
    assert main(["serve", str(run), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_no_run_is_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "HOME", tmp_path)  # a copy without the small models
    assert main(["serve"]) == 2
    assert "name a checkpoint or run" in capsys.readouterr().err
