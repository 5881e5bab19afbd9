"""The newcomer's first command."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from adlm.cli import main
from adlm.config import from_dict
from adlm.models.cost import parameters
from adlm.studies import pool, quickstart
from adlm.studies.quickstart import RECIPES
from tests.commands.small_quickstart import small

SMALL = ["--steps", "3", "--rows", "20"]
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.commands.small_quickstart"]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """One cache for all of these: the corpus is tokenised once."""
    return str(tmp_path_factory.mktemp("tokens"))


def in_this_process(jobs, workers, threads, look=None):
    """What `pool.work` does in processes of their own."""
    for job in jobs:
        assert quickstart.work(job.folder, *job.given) == 0


def make_small(patch, tokens):
    """Small models that write in few steps, one after the other in this process."""
    patch.setenv("ADLM_CACHE", tokens)
    patch.setattr(quickstart, "recipe", small)
    patch.setattr(pool, "work", in_this_process)
    for way in quickstart.WAYS[False].values():
        patch.setitem(way, "steps", 8)


@pytest.fixture(autouse=True)
def _small(tokens, monkeypatch):
    make_small(monkeypatch, tokens)


@pytest.fixture(scope="module")
def home(tokens, tmp_path_factory):
    """A whole quickstart, of three steps."""
    made = tmp_path_factory.mktemp("quickstart") / "q"
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        make_small(patch, tokens)
        assert main(["quickstart", "--out", str(made), *SMALL]) == 0
    assert f"open {made / 'report.html'}" in out.getvalue()
    assert "laptop-adlm" in err.getvalue()
    return made


def test_five_models_are_trained_scored_and_shown(home):
    result = json.loads((home / "results.json").read_text())
    assert list(result["rows"]) == list(RECIPES)
    page = (home / "report.html").read_text()
    for row in result["rows"].values():
        assert f"{row['ppl']:.2f}" in page
        assert row["fillings"][0].startswith("The")
        assert row["parameters"] == parameters(from_dict(row["config"]), 2048)
    assert "adlm watch" in page
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:3] == ["In short", "A text appears", "How to go on"]
    assert not re.search(r"(?:src|href)=['\"]?(?:http|//)", page)


def test_nothing_is_done_twice_and_more_steps_are_scored_anew(home, capsys):
    texts = {p: p.stat().st_mtime_ns for p in home.glob("*/eval/*.json")}
    before = json.loads((home / "results.json").read_text())
    assert main(["quickstart", "--out", str(home), *SMALL]) == 0
    assert "are trained: nothing is trained again" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in home.glob("*/eval/*.json")} == texts
    assert json.loads((home / "results.json").read_text()) == before
    assert main(["quickstart", "--out", str(home), "--steps", "4", "--rows", "20"]) == 0
    after = json.loads((home / "results.json").read_text())
    for name, row in after["rows"].items():
        assert row["checkpoint_hash"] != before["rows"][name]["checkpoint_hash"]
    capsys.readouterr()
    assert main(["quickstart", "--out", str(home), *SMALL]) == 0
    said = capsys.readouterr().err
    assert "kept as they are, with more steps" in said
    assert f"{RECIPES[-1]} (4 steps)" in " ".join(said.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rows", "-1"], "--rows must be 0 or more"),
        (["--steps", "-1"], "--steps must be 0 or more"),
        (["fast"], "'fast' is one argument too many"),
    ],
)
def test_bad_input_starts_nothing(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["quickstart", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [420, 1200])
def test_the_page_in_a_browser(home, browser, width):
    browser.set_window_size(width, 900)
    browser.get((home / "report.html").as_uri())
    size = "return [document.documentElement.scrollWidth, window.innerWidth]"
    wide, window = browser.execute_script(size)
    assert wide <= window
    assert len(browser.find_elements("css selector", "section")) == 6
    frame = browser.find_element("tag name", "iframe")
    browser.switch_to.frame(frame)
    until = time.monotonic() + 60  # the frame has a page of its own to load
    while time.monotonic() < until:
        if len(browser.find_elements("css selector", "article .t")) == 2 * 64:
            break
        time.sleep(0.2)
    assert len(browser.find_elements("css selector", "article .t")) == 2 * 64
    browser.switch_to.default_content()
    inner = "return arguments[0].contentDocument.querySelector('main').offsetHeight"
    assert frame.size["height"] >= browser.execute_script(inner, frame)  # nothing is cut off
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.mark.parametrize("whom", ["the group", "the parent"])
def test_ctrl_c_stops_all_and_the_same_command_goes_on(tmp_path, whom):
    words = [*COMMAND, "--out", str(tmp_path / "q"), "--steps", "2000", "--rows", "4"]
    process = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a job of a shell has none
    )
    runs = tmp_path / "q"
    until = time.monotonic() + 300
    while time.monotonic() < until and not list(runs.glob("*/metrics.jsonl")):
        time.sleep(0.2)
    time.sleep(1)
    # a terminal tells all of the group
    (os.killpg if whom == "the group" else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; what was done is saved, and the same command goes on" in said
    assert "Traceback" not in said
    assert list(runs.glob("*/checkpoints/step-*"))
    reached = {p.parent.parent.name: int(p.name[5:]) for p in runs.glob("*/checkpoints/step-*")}
    if whom == "the parent":
        return  # from here on it is the same
    few = [*words[:-4], "--steps", "2", "--rows", "4"]  # what was reached is kept, the rest done
    assert subprocess.run(few, capture_output=True, cwd=ROOT).returncode == 0
    assert (runs / "report.html").is_file()
    for name, step in reached.items():
        assert (runs / name / "checkpoints" / f"step-{step:08d}").is_dir()


def test_what_is_over_is_told_by_when_the_last_worker_ends(tmp_path):
    names = ["a", "b", "c"]  # of equal size: two workers need the time of two of them
    config = small("laptop-mdlm")
    jobs = [pool.Job(name, tmp_path / name, "m", [config, 20]) for name in names]
    over = [quickstart.percent(jobs, 2)]
    for name in names:
        (tmp_path / name / "eval").mkdir(parents=True)
        (tmp_path / name / "eval" / "texts.json").write_text("{}")
        over.append(quickstart.percent(jobs, 2))
    assert over == [0, 50, 50, 100]  # the other two can be done at a time
    assert quickstart.percent(jobs[:2], 2) == 100
    log = {"step": config.train.steps, "seconds": 1.0}
    (tmp_path / "c" / "eval" / "texts.json").unlink()
    (tmp_path / "c" / "metrics.jsonl").write_text(json.dumps(log) + "\n")
    after = quickstart.WRITING / (config.train.steps + quickstart.WRITING)
    assert quickstart.percent(jobs, 2) == pytest.approx(100 - 50 * after)
