"""The report: every kind of result, escaped, whole, and honest about broken files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from adlm.cli import main
from adlm.eval.report import parts
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("report")
    text = small_corpus(home)
    train(make_config(text, steps=4, eval_every=2), home / "run")
    assert main(["eval", "likelihood", str(home / "run"), "--limit", "4"]) == 0
    return home / "run"


def test_a_run_and_its_results_make_one_page(run, tmp_path):
    evil = tmp_path / "samples.json"
    row = {"entropy": {"mean": 1.0}, "distinct": {"2": 0.5}, "repetition": {"mean": 0.0}}
    result = {
        "command": "eval samples",
        "rows": {"samples": row},
        "examples": ["<script>x</script>"],
    }
    evil.write_text(json.dumps(result))
    out = tmp_path / "out" / "report.html"
    assert main(["report", str(run), str(evil), "--out", str(out), "--title", "A & B"]) == 0
    page = out.read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<title>A &amp; B</title>" in page
    assert page.count("<section>") == 3
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)=['\"]http", page)
    assert "data_hash" in page
    ppl = json.loads(next((run / "eval").glob("*.json")).read_text())["ppl"]
    assert f"≤ {ppl:.2f}" in page
    assert f"≤ {ppl:.2f}" in out.with_suffix(".md").read_text()


def test_figures_come_before_what_is_looked_at_closely(tmp_path):
    names = ["anchors", "efficiency-mine", "likelihood-sotu-test", "mine", "samples"]
    (tmp_path / "eval").mkdir()
    for name in names:
        (tmp_path / "eval" / f"{name}.json").write_text("{}")
    found = [path.stem for path in parts(tmp_path)]
    assert found == ["likelihood-sotu-test", "samples", "efficiency-mine", "mine", "anchors"]


def test_a_run_that_was_stopped_is_said_to_be(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    config = json.loads((copy / "config.json").read_text())
    config["train"]["steps"] = 5000
    (copy / "config.json").write_text(json.dumps(config))
    assert main(["report", str(copy), "--out", str(tmp_path / "r.html")]) == 0
    assert "of 5,000: the run is not finished" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("not json", "is not JSON"),
        ("[1]", "it holds no object"),
        ('{"command": "eval zeroshot"}', "is not a result of 'eval zeroshot'"),
        ('{"study": "x", "rows": [{"row": 5}]}', "is not a result of 'study'"),
        ('{"command": "quickstart", "rows": {}}', "cannot be shown"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path, capsys, content, says):
    file = tmp_path / "x.json"
    file.write_text(content)
    assert main(["report", str(file), "--out", str(tmp_path / "r.html")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_what_is_damaged_is_left_out_and_said(run, tmp_path, capsys):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "eval" / "cut.json").write_text('{"command": "eval')
    (copy / "config.json").write_text("{")
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "metrics.jsonl").write_text('{"step": 1, "tokens": "many", "loss": {}}\n')
    words = ["report", str(copy), str(strange), str(run)]
    assert main([*words, "--out", str(tmp_path / "r.html")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    page = (tmp_path / "r.html").read_text()
    assert page.count("Training: run") == 1  # of the whole one
    assert page.count("Likelihood") == 2
    assert "<h2>Left out</h2>" in page
    for name in ("cut.json", "config.json", "metrics.jsonl"):
        assert name in said
        assert name in page


def test_the_markdown_is_escaped(tmp_path):
    evil = "a | b <img src=x> [click](javascript:x) ![see](http://x) *loud*"
    values = {"command": "no such command", "field": evil, "more": "`code | <b>`"}
    (tmp_path / "x.json").write_text(json.dumps(values))
    words = ["report", str(tmp_path / "x.json"), "--out", str(tmp_path / "r.html")]
    assert main([*words, "--title", "# <b>"]) == 0
    said = (tmp_path / "r.md").read_text()
    assert said.startswith("# \\# &lt;b&gt;\n")
    assert r"a \| b &lt;img src=x&gt; \[click\](javascript:x) !\[see\](http://x) \*loud\*" in said
    assert r"| more | `code \| <b>` |" in said
    page = (tmp_path / "r.html").read_text()
    assert "<img src=x>" not in page
    assert "<code>code | &lt;b&gt;</code>" in page


def test_every_result_of_the_repository_is_shown(tmp_path):
    files = [str(p) for p in sorted(RESULTS.glob("*.json"))]
    assert main(["report", *files, "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert page.count("<section>") == len(files)
    assert "Left out" not in page


def test_missing_things_are_named(tmp_path, capsys):
    assert main(["report", str(tmp_path / "no.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "is neither a run nor a result" in capsys.readouterr().err


def test_reasoning_and_humaneval_have_sections(tmp_path):
    study = {"study": "reasoning", "task": "prosqa", "rows": [ROW]}
    code = {
        "command": "eval humaneval",
        "mode": "complete",
        "tasks": 164,
        "n": 1,
        "parses": 0.25,
        "context": 64,
        "tasks_cut": 3,
        "executed": True,
        "pass_at": {"1": {"mean": 0.125, "stderr": 0.01}},
        "shares": {"passed": 0.125},
    }
    for name, result in (("a.json", study), ("b.json", code)):
        (tmp_path / name).write_text(json.dumps(result))
    files = [str(tmp_path / n) for n in ("a.json", "b.json")]
    assert main(["report", *files, "--out", str(tmp_path / "r.html")]) == 0
    said = (tmp_path / "r.md").read_text()
    assert "| acot | 75.0 ± 5.0 | 70.0 to 80.0 | 3.0 | 2.0 |  | 50.0% |" in said
    assert "| pass@1, per cent | 12.50 ± 1.00 |" in said


ROW = {
    "method": "acot",
    "mean": 0.75,
    "sd": 0.05,
    "interval": [0.7, 0.8],
    "tokens": 3.0,
    "slots": 2.0,
    "sound_traces": None,
    "anchor_recall": 0.5,
    "seeds": [0, 1],
    "accuracy": [0.7, 0.8],
    "items": 100,
    "seconds": 1.0,
    "training_tokens": 10,
    "data_hash": "0",
    "plan": {},
    "source": "generated",
}


def test_the_suite_measures_everything_once_and_reports(run, tmp_path, capsys, shared):
    words = ["eval", "suite", str(run), "--out", str(tmp_path), "--texts", "16", "--rows", "2"]
    words += ["--judge", "none", "--data.dir", str(shared), "--grid", "[2]"]
    assert main(words) == 0
    kinds = {p.stem.split("-")[1] for p in tmp_path.glob("eval-*.json")}
    assert {"likelihood", "zeroshot", "efficiency"} <= kinds
    first = {p: p.stat().st_mtime_ns for p in tmp_path.glob("eval-*.json")}
    assert main(words) == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("eval-*.json")} == first
    page = (tmp_path / "eval-report.html").read_text()
    assert "Zero-shot perplexity" in page
    assert "What generation costs" in page
    assert not (tmp_path / ".unfinished").exists()
    assert main(["eval", "suite", str(tmp_path / "none")]) == 2
