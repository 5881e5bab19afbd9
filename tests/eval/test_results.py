"""Result files: those of earlier versions are read, and figures are never lost for want of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adlm import results
from adlm.cli import main
from adlm.errors import UserError
from adlm.eval.report import of_file
from adlm.registry import lookup
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

OLD = Path(__file__).parent / "old"  # written by the version before results were types
SHOWN = json.loads((OLD / "sections.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SHOWN)
def test_an_earlier_version_s_file_is_shown_as_it_was(name):
    found, before = of_file(OLD / f"{name}.json"), SHOWN[name]
    shown = {k: getattr(found, k) for k in ("title", "notes", "texts")}
    wide = len(before["header"])  # columns may have been added
    shown |= {"header": found.header[:wide], "rows": [row[:wide] for row in found.rows]}
    assert shown | {"plots": len(found.plots)} == before


@pytest.mark.parametrize("name", SHOWN)
def test_a_file_is_read_and_written_by_one_class(name):
    values = json.loads((OLD / f"{name}.json").read_text(encoding="utf-8"))
    kind = lookup("result", values["command"])
    read = kind.from_json(values)
    again = read.to_json()
    assert again["version"] == 1
    assert kind.from_json(again) == read
    check_kept(values, again)


def check_kept(before, after) -> None:
    """Every field of a file is there again, with its value; there may be more."""
    if isinstance(before, dict):
        for key, value in before.items():
            check_kept(value, after[key])
    elif isinstance(before, list):
        for pair in zip(before, after, strict=True):
            check_kept(*pair)
    else:
        assert before == after


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("results")
    train(make_config(small_corpus(home), steps=2), home / "run")
    return home / "run"


def test_a_place_that_cannot_be_written_is_found_before_the_work(
    run, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("adlm.eval.likelihood.score", lambda *_: pytest.fail("it was computed"))
    (tmp_path / "file").write_text("")
    for out in ("file/a/r.json", ""):
        words = ["eval", "likelihood", str(run), "--limit", "2", "--out", str(tmp_path / out)]
        assert main(words) == 2
    said = capsys.readouterr().err
    assert "r.json cannot be written: Not a directory" in said
    assert "is a folder: name a file in it" in said


def test_trying_a_place_leaves_nothing(tmp_path):
    results.try_place(tmp_path / "a" / "b" / "r.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["likelihood", "--limit", "2"],
        ["samples", "-n", "2", "--steps", "2", "--judge", "none"],
    ],
)
def test_figures_are_printed_when_the_file_cannot_be_written(
    run, tmp_path, capsys, monkeypatch, words
):
    def full(path, text):
        raise UserError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr(results, "write_text", full)
    name, *rest = words
    assert main(["eval", name, str(run), *rest, "--out", str(tmp_path / "r.json")]) == 2
    shown = capsys.readouterr()
    assert ("PPL ≤" in shown.out) if name == "likelihood" else ("| real texts |" in shown.out)
    assert "No space left on device" in shown.err
    assert "written to" not in shown.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_of_several_files_all_are_written_or_none(tmp_path):
    first, second = tmp_path / "a" / "first", tmp_path / "second"
    second.write_text("before", encoding="utf-8")
    with pytest.raises(UserError, match="/dev/full cannot be written"):
        results.write_texts({first: "one", second: "two", Path("/dev/full"): "three"})
    with pytest.raises(UserError, match="is a folder"):
        results.write_texts({first: "one", second: "two", tmp_path: "three"})
    assert not first.exists()
    assert second.read_text(encoding="utf-8") == "before"
    results.write_texts({first: "one", second: "two"})
    assert [p.read_text(encoding="utf-8") for p in (first, second)] == ["one", "two"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "first", "second"]
