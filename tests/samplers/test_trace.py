"""The record of a run, its page in a real browser, and its play in a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import adlm
from adlm.cli import main
from adlm.config import AnchorConfig, ModelConfig
from adlm.data.vocab import byte_vocab, make_vocab
from adlm.samplers.trace import Event, Trace
from adlm.train.run import train
from adlm.viz.html import replay, write_replay
from adlm.viz.terminal import frame
from tests.conftest import make_config, small_corpus

EVIL = "<script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("trace")
    text = small_corpus(home)
    config = make_config(text, "adlm", steps=2)
    model = ModelConfig(width=16, blocks=1, heads=2, anchor_blocks=1)
    train(type(config)(**{**vars(config), "model": model}), home / "adlm")
    return home / "adlm"


def test_a_trace_plays_back_to_the_texts(run):
    model = adlm.load(run)
    trace = model.trace(prompt="the ", n=3, sampler="remdm-cap", policy={"eta": 0.5}, steps=20)
    assert trace.steps == 20
    again = model.generate(n=3, prompt="the ", sampler="remdm-cap", policy={"eta": 0.5}, steps=20)
    assert [model.vocab.decode(trace.tokens(r)) for r in range(3)] == again
    assert (trace.tokens(0, step=0) == trace.template).all()
    events = [e for row in trace.events for e in row]
    assert any(e.token is None for e in events), "at eta 0.5 something is taken back"
    assert all(e.position >= 4 for e in events), "the prompt is never touched"
    assert trace.anchors is not None
    assert trace.anchors.shape == (3, 16)


def test_rows_of_later_batches_are_kept_apart(run):
    model = adlm.load(run)
    trace = model.trace(n=5, seed=4, at_once=2)
    texts = model.generate(n=5, seed=4)
    assert [model.vocab.decode(trace.tokens(r)) for r in range(5)] == texts


def evil_trace() -> Trace:
    """Two rows of four positions, one given; the token `<script>` and one that is taken back."""
    words = ["the", EVIL, "sea", "</script>", "law"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vocab = make_vocab(tokenizer)
    template = np.array([0, vocab.mask, vocab.mask, vocab.mask])
    rows = [
        [Event(1, 1, 1, 0.25), Event(2, 2, 2, 0.5), Event(3, 2, None, 0.5), Event(4, 2, 4, 0.75)],
        [Event(1, 3, 3, 0.125)],
    ]
    rows[0].append(Event(4, 3, 3, 1.0))
    anchors = np.array([[0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
    return Trace(template, vocab, rows, 4, anchors, "by hand")


def test_the_page_loads_nothing_and_escapes_everything():
    page = replay(evil_trace())
    assert EVIL not in page
    assert page.count("</script>") == 2, "the data's and the program's own, no token's"
    assert not re.search(r"(src|href)\s*=|url\(|@import|fetch\(|XMLHttp", page)
    data = re.search(r'id="trace">(.*?)</script>', page, re.S)
    assert data
    assert json.loads(data[1])["pieces"]["1"] == EVIL


def tokens(browser, row: int = 0) -> list:
    return browser.find_elements("css selector", f"article:nth-child({row + 1}) .t")


def test_the_page_plays_steps_and_scrubs_in_a_real_browser(browser, tmp_path):
    out = tmp_path / "out.html"
    write_replay(evil_trace(), out)
    browser.get(f"{out.as_uri()}#0")
    assert browser.title == "adlm replay"
    kinds = [t.get_attribute("class") for t in tokens(browser)]
    assert kinds == ["t given", "t masked", "t masked", "t masked"]

    def press(name: str) -> None:
        browser.find_element("id", name).click()

    press("more")
    assert tokens(browser)[1].text == EVIL
    assert tokens(browser)[1].get_attribute("class") == "t anchor new"
    press("more")
    press("more")
    assert tokens(browser)[2].get_attribute("class") == "t masked back"
    press("less")
    assert tokens(browser)[2].text == "sea"
    assert "anchor" not in tokens(browser)[2].get_attribute("class"), "it will be another token"
    browser.execute_script(
        "const s = document.getElementById('scrub'); s.value = 4; s.oninput({target: s})"
    )
    assert browser.find_element("id", "where").text == "step 4 of 4"
    assert [t.text for t in tokens(browser)] == ["the", EVIL, "law", "</script>"]
    browser.execute_script("arguments[0].focus()", tokens(browser)[2])
    said = browser.find_element("id", "tip").text.splitlines()
    assert said == [
        "“law”",
        "written at step 4",
        "probability 0.750",
        "taken back 1 time",
        "anchor",
    ]
    press("first")
    browser.execute_script("document.getElementById('speed').value = 100")
    press("play")
    deadline = time.time() + 20
    while "4 of 4" not in browser.find_element("id", "where").text and time.time() < deadline:
        time.sleep(0.05)
    assert browser.find_element("id", "where").text == "step 4 of 4"
    errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert not errors


def test_the_page_fits_a_phone_and_follows_dark_mode(browser, run, tmp_path):
    out = tmp_path / "out.html"
    assert main(["sample", str(run), "-n", "2", "--trace", str(out)]) == 0
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    colours = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get(f"{out.as_uri()}#3")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        colours.append(browser.execute_script("return getComputedStyle(document.body).background"))
    assert colours[0] != colours[1]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_watching_in_a_terminal_obeys_the_keys(run):
    """A pseudo-terminal, the real program, real key presses."""
    main_end, their_end = pty.openpty()
    words = [sys.executable, "-m", "adlm", "watch", str(run), "--speed", "1000", "--steps", "4"]
    process = subprocess.Popen(
        words,
        stdin=their_end,
        stdout=their_end,
        stderr=their_end,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(their_end)
    shown = b""

    def until(what: bytes, since: int = 0) -> int:
        nonlocal shown
        deadline = time.time() + 240  # a busy machine takes long to import torch
        while what not in shown[since:] and time.time() < deadline:
            if select.select([main_end], [], [], 0.2)[0]:
                shown += os.read(main_end, 65536)
        assert what in shown[since:], shown[-500:]
        return len(shown)

    at = until(b"step 4 of 4")
    os.write(main_end, b"\x1b[D")
    at = until(b"step 3 of 4", at)
    os.write(main_end, b"-")
    at = until(b"500 steps/s", at)
    os.write(main_end, b"\x1b[C")
    at = until(b"step 4 of 4", at)
    os.write(main_end, b"q")
    until(b"network passes a text", at)
    assert process.wait(timeout=30) == 0
    os.close(main_end)
    assert b"\x1b[" in shown
    assert "␛".encode() not in shown, "colours are colours"
    assert b"yellow: rare: the rarest 30% of what the model writes" in shown


def test_watching_into_a_file_prints_the_steps(run, adlm_cli):
    done = adlm_cli("watch", run, "--text", "the [MASK:4] is", "--sampler", "first-hitting")
    assert done.returncode == 0
    frames = done.stdout.splitlines()
    assert [line.count("▁") for line in frames[:5]] == [4, 3, 2, 1, 0]


def test_bad_input_writes_nothing(run, tmp_path, capsys):
    assert main(["watch", str(run), "--speed", "0"]) == 2
    assert "--speed must be above 0" in capsys.readouterr().err
    assert main(["watch", str(run), "-n", "3"]) == 2
    assert "one text is watched" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["sample", str(run), "--trace", str(tmp_path / "file" / "out.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_where_the_rule_takes_nearly_all_the_rarest_are_shown(run):
    model = adlm.load(run)
    trace = model.trace(n=4, seed=1)
    assert "rarest 30%" in trace.rule  # the paper's rule takes every token of rows this short
    assert trace.anchors is not None
    assert not trace.anchors.all()
    few = type(model.config)(**{**vars(model.config), "anchor": AnchorConfig(rule="none")})
    trace.mark_anchors(model.network, few)
    assert trace.rule == "anchor: by the rule none"
    assert not trace.anchors.any()


def test_letters_of_several_bytes_are_whole_in_the_terminal():
    vocab = byte_vocab()
    template = vocab.encode(["né 日本"])[0]
    trace = Trace(template, vocab, [[]])
    assert frame(trace, 0, 0).plain == "né 日本"
    letters = json.loads(trace.to_json())["letters"][0]
    assert letters["1"] == "é"
    assert letters["2"] == ""
    assert "0" not in letters


def test_letters_of_several_bytes_are_whole_on_the_page(browser, tmp_path):
    vocab = byte_vocab()
    template = vocab.encode(["né 日本"])[0]
    events = [[Event(1, at, int(t), 0.5) for at, t in enumerate(template)]]
    write_replay(Trace(np.full_like(template, vocab.mask), vocab, events, 1), tmp_path / "p.html")
    browser.get((tmp_path / "p.html").as_uri() + "#1")
    assert browser.find_element("css selector", "article p").text == "né 日本"
