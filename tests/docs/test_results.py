"""What the repository shows was made by what the repository has."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adlm import cli, registry
from adlm.config import Config, differences, from_dict, to_dict
from adlm.options import Command
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.recipes import recipe
from adlm.studies import ablate, anchoring, baselines, lasting, times, tuning
from adlm.studies.halving import HalvingStudy
from adlm.studies.language import LanguageStudy
from adlm.studies.lasting import LastingSettings
from adlm.studies.lasting_result import LastingResult
from adlm.studies.quickstart_result import QuickstartResult
from adlm.studies.reasoning import ReasoningStudyResult
from adlm.studies.result import StudyResult
from adlm.train.run import FREE

RESULTS = Path(__file__).parents[2] / "results"
sys.path.insert(0, str(RESULTS.parent / "docs"))

import follow  # noqa: E402
import results_page  # noqa: E402

FILES = sorted(RESULTS.glob("*.json"))
pytestmark = pytest.mark.usefixtures("one_cache")
STUDIES = {"lasting": lasting, "baselines": baselines, "tuning": tuning}
AXES = list(ablate.axes())
ROWS = {
    "study-anchoring": anchoring.rows,
    "study-baselines": baselines.rows,
    "study-times": times.rows,
    "study-tuning": tuning.rows,
    "study-ablate": lambda tokens: ablate.rows(AXES, tokens),
}

# candidates that are newer than the file's first look at all of them
LACKING = {"study-lasting": {"chance longer 1", "frequent longer 1 tilted"}}


def settled(values: dict) -> Config:
    """A stored configuration without what says nothing of the figures."""
    config: Config = from_dict(values)
    return replace(config, train=replace(config.train, seed=0))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_result_says_where_it_comes_from(path):
    found = json.loads(path.read_text())
    assert found["machine"]["torch"]
    assert found["machine"]["adlm"]
    assert found["date"]
    assert found["commit"]
    assert results_page.command_of(path.stem).startswith(("adlm ", "python ", "make "))
    limits = {"ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2"}
    for command in results_page.commands_of(path.stem):
        asked = set(command.split()) & limits
        assert asked == (limits if path.stem.endswith("-avx2") else set())


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


@pytest.mark.parametrize("path", sorted(RESULTS.glob("readme*.json")), ids=lambda p: p.stem)
def test_the_readme_that_was_followed_is_today_s(path):
    typed = [step["command"] for step in json.loads(path.read_text())["steps"]]
    assert typed == follow.commands((RESULTS.parent / "README.md").read_text())


@pytest.mark.parametrize("path", sorted(RESULTS.glob("study-lasting*.json")), ids=lambda p: p.stem)
def test_a_lasting_study_has_the_rows_that_its_command_makes_today(path):
    found = json.loads(path.read_text())
    budgets = sorted({g["tokens"] for g in found["gaps"]})
    sizes = list(dict.fromkeys(g["size"] for g in found["gaps"]))
    today: dict[str, Config] = {}
    for tokens in budgets:
        today |= lasting.study(LastingSettings(tokens=tokens, further=0, sizes=sizes)).rows
    for row in found["rows"]:
        changed = differences(settled(row["config"]), today[row["row"]])
        assert not changed, f"{row['row']}: made with another {', '.join(changed)}"


def arguments(command: str) -> dict:
    """What a command of the page gives its function."""
    words = shlex.split(command)[1:]
    name = cli.find(words)
    asked = Command(name, cli.load(name))
    return asked.arguments(asked.read(words[len(name.split()) :]))


def runs(study: LanguageStudy) -> set[tuple[str, int]]:
    """The runs, rows and seeds, that a study does or takes from other studies."""
    if isinstance(study, HalvingStudy):  # all that it is asked for go on
        assert study.promote == 0
        every = [(c.row, c.seed) for c in study.every_cell()]
        return {(row, seed) for row, seed in every if study.is_asked(study.places[row].candidate)}
    own = {(c.row, c.seed) for c in study.cells() if c.row in (study.only or study.rows)}
    return own | set(replace(study, before=None).found())


@pytest.mark.parametrize("name", results_page.AGAIN)
def test_the_commands_shown_make_the_rows_and_seeds_of_the_file(name, tmp_path):
    made: set[tuple[str, int]] = set()
    for command in results_page.AGAIN[name]:
        settings = arguments(command)["settings"]
        assert settings.out == f"results/{name}.json"
        own = replace(settings, home=str(tmp_path), out=str(tmp_path / "none.json"))
        made |= runs(STUDIES[name.split("-")[1]].study(own))
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    found = {(row["row"], seed) for row in rows for seed in row["seeds"]}
    assert not found - made
    assert {row.split(",")[0] for row, _ in made - found} <= LACKING.get(name, set())


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("eval-efficiency-*.json")), ids=lambda p: p.stem
)
def test_the_trainings_shown_are_of_the_stored_configurations(path):
    stored = json.loads(path.read_text())["configs"]
    for (run, values), command in zip(
        stored.items(), results_page.trainings(path.stem), strict=True
    ):
        words = shlex.split(command)[2:]
        config = cli.base_config(words[0])[0]
        asked = Command("train", cli.load("train"), config=config)
        given = asked.arguments(asked.read(words))
        assert given["out"] == run
        changed = differences(given["config"], from_dict(values))
        assert set(changed) <= FREE - {"train.steps"}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("eval-reason-*.json")), ids=lambda p: p.stem)
def test_the_trainings_shown_have_the_stored_plan(path):
    found = json.loads(path.read_text())
    (command,) = results_page.trainings(path.stem)
    given = arguments(command)
    assert (given["task"], given["method"]) == (found["task"], found["method"])
    assert given["settings"] == from_dict(found["plan"]["settings"], ReasoningSettings)
    assert f" {given['out']} " in results_page.command_of(path.stem)


def test_the_study_of_bases_is_of_today_s_recipes():
    """Beside the recipe a row has its data and base, and as AR was AR's shift and wider taps."""
    for row in json.loads((RESULTS / "finetune.json").read_text())["rows"]:
        config = settled(row["config"])
        wanted = recipe(f"laptop-{config.objective}")
        wanted = replace(wanted, train=config.train)
        changed = [
            name
            for name in differences(config, wanted)
            if not name.startswith(("data.", "base.")) and name not in ("model.shift", "model.conv")
        ]
        assert not changed, f"{row['row']}: made with another {', '.join(changed)}"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*reason*.json")), ids=str)
def test_a_result_of_reasoning_has_a_plan_of_today_s_settings(path):
    found = json.loads(path.read_text())
    for plan in [row["plan"] for row in found["rows"]] if "rows" in found else [found["plan"]]:
        given = Plan(plan["task"], plan["method"], from_dict(plan["settings"], ReasoningSettings))
        stored, today = plan["settings"], to_dict(given)["settings"]  # which may have more
        assert {name: today[name] for name in stored} == stored
        assert given.stages()


KNOWN = {"anchor.stale", "base.name"}  # what a run was given besides its recipe


@pytest.mark.parametrize("path", sorted(RESULTS.glob("eval-efficiency-*.json")), ids=str)
def test_costs_are_of_models_of_today_s_recipes(path):
    for name, values in json.loads(path.read_text())["configs"].items():
        known = [recipe(r) for r in registry.names("recipe") if r.startswith("laptop-")]
        own = replace(settled(values), train=known[0].train)  # a study has its own
        alike = [replace(r, train=own.train) for r in known]
        nearest = min((differences(own, r) for r in alike), key=len)
        assert set(nearest) <= KNOWN, f"{name}: made with another {', '.join(nearest)}"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("eval-pretrained-*.json")), ids=str)
def test_shipped_models_are_of_today_s_recipes(path):
    name = path.stem.removeprefix("eval-pretrained-")
    changed = differences(
        settled(json.loads(path.read_text())["config"]), recipe(f"shipped-{name}")
    )
    assert set(changed) <= KNOWN, f"made with another {', '.join(changed)}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("eval-") and "-laptop-" in p.stem], ids=str
)
def test_an_evaluation_is_of_today_s_recipe(path):
    found = json.loads(path.read_text())
    name = "laptop-" + path.stem.rsplit("-laptop-", 1)[1]
    assert not differences(settled(found["config"]), recipe(name))
