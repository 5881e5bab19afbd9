"""What the repository shows was made by what the repository has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from adlm.config import Config, differences, from_dict
from adlm.recipes import recipe
from adlm.studies import ablate, anchoring, baselines, times, tuning
from adlm.studies.lasting_result import LastingResult
from adlm.studies.quickstart_result import QuickstartResult
from adlm.studies.reasoning import ReasoningStudyResult
from adlm.studies.result import StudyResult

RESULTS = Path(__file__).parents[2] / "results"
FILES = sorted(RESULTS.glob("*.json"))
AXES = list(ablate.axes())
ROWS = {
    "study-anchoring": anchoring.rows,
    "study-baselines": baselines.rows,
    "study-times": times.rows,
    "study-tuning": tuning.rows,
    "study-ablate": lambda tokens: ablate.rows(AXES, tokens),
}


def settled(values: dict) -> Config:
    """A stored configuration without what says nothing of the figures."""
    config: Config = from_dict(values)
    return replace(config, train=replace(config.train, seed=0))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_result_says_where_it_comes_from(path):
    found = json.loads(path.read_text())
    assert found["machine"]["torch"]
    assert found["date"]
    assert found["commit"]


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        (StudyResult, "study-[!rl]*"),
        (LastingResult, "study-lasting*"),
        (ReasoningStudyResult, "study-reasoning*"),
        (QuickstartResult, "quickstart*"),
    ],
)
def test_a_result_is_written_as_it_was_read(kind, pattern):
    files = sorted(RESULTS.glob(f"{pattern}.json"))
    assert files
    for path in files:
        stored = json.loads(path.read_text())
        again = kind.read(path).to_json()
        assert kind.from_json(again) == kind.read(path)
        for row in again["rows"] if kind is not QuickstartResult else again["rows"].values():
            row.pop("command", None)
        for row in stored["rows"] if kind is not QuickstartResult else stored["rows"].values():
            row.pop("command", None)
        assert {k: again[k] for k in stored} == stored


@pytest.mark.parametrize("name", [n for n in ROWS if (RESULTS / f"{n}.json").is_file()])
def test_a_study_has_the_rows_that_its_command_makes_today(name):
    found = json.loads((RESULTS / f"{name}.json").read_text())
    today = ROWS[name](found["tokens"])
    for row in found["rows"]:
        changed = differences(settled(row["config"]), today[row["row"]])
        assert not changed, f"{name}, {row['row']}: made with another {', '.join(changed)}"


def test_the_quickstart_s_result_is_of_today_s_recipes():
    for path in RESULTS.glob("quickstart*.json"):
        for name, row in json.loads(path.read_text())["rows"].items():
            changed = differences(settled(row["config"]), recipe(name))
            assert not changed, f"{path.name}, {name}: made with another {', '.join(changed)}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("eval-") and "-laptop-" in p.stem], ids=str
)
def test_an_evaluation_is_of_today_s_recipe(path):
    found = json.loads(path.read_text())
    name = "laptop-" + path.stem.rsplit("-laptop-", 1)[1]
    assert not differences(settled(found["config"]), recipe(name))
