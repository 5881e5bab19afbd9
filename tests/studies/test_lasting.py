"""Does it last: equal FLOPs, halving, runs of other studies, trends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adlm.cli import main
from adlm.config import to_dict
from adlm.data.vocab import byte_vocab
from adlm.errors import UserError
from adlm.models.cost import training_flops
from adlm.objectives.base import make_objective
from adlm.studies import anchoring, baselines, lasting
from adlm.studies.halving import BASE, HalvingStudy, Place
from adlm.studies.language import LanguageStudy, earlier, tokens_of
from adlm.studies.lasting import LastingSettings
from adlm.studies.lasting_result import Gap, LastingResult, trend, trends
from adlm.studies.result import LearningCurve, RunFigures, StudyResult, StudyRow
from tests.conftest import make_config

pytestmark = pytest.mark.usefixtures("one_cache")


def test_every_candidate_costs_what_mdlm_costs():
    made = lasting.study(LastingSettings(tokens=6_000_000, sizes=["nano", "micro"], further=1))
    assert len({c.folder for c in made.every_cell()}) == len(made.rows)  # one seed
    at = {place: row for row, place in made.places.items()}
    for place, row in at.items():
        base = made.rows[at[Place(BASE, place.size, place.tokens)]]
        own = made.rows[row]
        spent = [tokens_of(c) * training_flops(c, 2048) for c in (own, base)]
        assert spent[0] == pytest.approx(spent[1], rel=5e-3), row


def test_budgets_grow_as_told():
    settings = LastingSettings(tokens=1_500_000, further=2, growth=4)
    assert settings.budgets == [1_500_000, 6_000_000, 24_000_000]
    with pytest.raises(UserError, match="--growth must be from 2 to 100, found 1"):
        LastingSettings(growth=1)


def test_the_first_rows_are_those_of_other_studies():
    made = lasting.study(LastingSettings(tokens=6_000_000, sizes=["nano"], further=0)).rows
    assert made["MDLM, nano, 6 M"] == anchoring.rows(6_000_000)["MDLM"]
    assert made["larger MDLM, nano, 6 M"].model == anchoring.rows(6_000_000)[anchoring.LARGER].model
    known = {tokens_of(c): c for c in baselines.rows(6_000_000).values()}
    assert (
        made["BD3-LM (4), nano, 6 M"].process
        == replace(
            next(iter(known.values())), process=baselines.rows(6_000_000)["BD3-LM (4)"].process
        ).process
    )


@pytest.mark.parametrize("name", lasting.candidates("nano", 2048))
def test_every_candidate_is_a_sound_configuration(name):
    assert "," not in name  # --only is a list
    make_objective(lasting.candidates("nano", 2048)[name], byte_vocab())


def test_candidates_are_named_and_a_wrong_name_is_one_sentence():
    assert lasting.study(LastingSettings(only=["loops"])).asked == ("loops",)
    with pytest.raises(UserError, match="no candidate 'loop'; did you mean 'loops'"):
        lasting.study(LastingSettings(only=["loop"]))
    with pytest.raises(UserError, match=r"--share gone.json is not there"):
        _ = LastingSettings(share=["gone.json"]).others


def run_of(ppl: float) -> RunFigures:
    return RunFigures(ppl, None, ppl, False, "d", [1], [1.0])


def stored(path, rows) -> None:
    """A study's file with these runs: name -> (configuration, PPL by seed)."""
    made = [
        StudyRow(
            name, 1, 1, 1.0, list(ppl), list(ppl.values()), 1.0, None, 1.0, False,
            LearningCurve([], [], []), to_dict(config), [run_of(p) for p in ppl.values()],
        )
        for name, (config, ppl) in rows.items()
    ]  # fmt: skip
    StudyResult(study="other", rows=made).save(path)


def halving(text_file, tmp_path, **more) -> HalvingStudy:
    """Three candidates and MDLM at two budgets."""
    rows, places = {}, {}
    for steps in (4, 8):
        for number, name in enumerate([BASE, "a", "b", "c"]):
            config = make_config(text_file, steps=steps, eval_every=steps, log_every=1 + number)
            label = f"{name}, nano, {steps / 1e6:g} M"
            rows[label], places[label] = config, Place(name, "nano", steps)
    settings = {"name": "l", "home": tmp_path / "s", "seeds": dict.fromkeys(rows, 2)} | more
    return HalvingStudy(rows=rows, places=places, **settings)


def test_runs_are_taken_from_another_study_by_their_configuration(text_file, tmp_path):
    one, two = make_config(text_file, steps=4), make_config(text_file, steps=5)
    stored(tmp_path / "other.json", {"by another name": (one, {0: 9.0, 2: 8.0})})
    found = earlier(tmp_path / "other.json", {"mine": one, "longer": two})
    assert {key: run.test_ppl for key, run in found.items()} == {("mine", 0): 9.0, ("mine", 2): 8.0}
    study = LanguageStudy(
        name="s", home=tmp_path / "s", rows={"mine": one}, seeds={"mine": 3},
        share=(tmp_path / "other.json",),
    )  # fmt: skip
    assert [(c.row, c.seed) for c in study.left()] == [("mine", 1)]


def test_what_a_file_knows_of_other_budgets_stays(tmp_path):
    small = {"tokens": 1000, "further": 0, "sizes": ["nano"], "out": str(tmp_path / "l.json")}
    later = lasting.study(LastingSettings(**(small | {"tokens": 4000})))
    rows = {f"{name}, nano, 0.004 M": ppl for name, ppl in ((BASE, 50.0), ("deep", 45.0))}
    stored(tmp_path / "o.json", {name: (later.rows[name], {0: ppl}) for name, ppl in rows.items()})
    found = StudyResult.read(tmp_path / "o.json").rows
    gaps = [Gap("deep", "nano", 4000, [0], [10.0], 10.0, None)]
    LastingResult(study="lasting", rows=found, gaps=gaps).save(tmp_path / "l.json")
    study = lasting.study(LastingSettings(**small, seeds=2))
    assert study.gather().gaps == gaps
    assert {study.places[c.row].tokens for c in study.every_cell()} == {1000}


def test_the_best_of_the_first_round_go_on(text_file, tmp_path):
    study = halving(text_file, tmp_path, promote=1)
    assert {(c.row, c.seed) for c in study.left()} == {
        (f"{name}, nano, 4e-06 M", 0) for name in (BASE, "a", "b", "c")
    }
    ppl = {BASE: 50.0, "a": 52.0, "b": 45.0, "c": 47.0}
    first = {
        row: (config, {0: ppl[study.places[row].candidate]})
        for row, config in study.rows.items()
        if study.places[row].tokens == 4
    }
    stored(tmp_path / "done.json", first)
    study = replace(study, share=(tmp_path / "done.json",))
    left = [(study.places[c.row], c.seed) for c in study.left()]
    assert {(place.candidate, place.tokens, seed) for place, seed in left} == {
        (BASE, 4, 1), ("b", 4, 1), (BASE, 8, 0), ("b", 8, 0), (BASE, 8, 1), ("b", 8, 1)
    }  # fmt: skip
    gaps = {g.candidate: g.mean for g in study.gaps(study.found())}
    assert gaps == pytest.approx({"a": -4.0, "b": 10.0, "c": 6.0})
    asked = replace(study, asked=("a", "c"))
    assert {study.places[c.row].candidate for c in asked.left()} == {BASE, "c"}
    assert {g.candidate for g in asked.gaps(asked.found())} == {"a", "b", "c"}  # all that is known


def test_a_small_study_runs_to_its_end_and_says_what_it_found(text_file, tmp_path, capsys):
    study = halving(text_file, tmp_path, promote=1)
    keep = {r: c for r, c in study.rows.items() if study.places[r].candidate in (BASE, "a")}
    study = replace(study, rows=keep, seeds=dict.fromkeys(keep, 1))
    study = replace(study, places={r: study.places[r] for r in keep})
    result = study.run(workers=2)
    assert [g.tokens for g in result.gaps] == [4, 8]
    result.save(tmp_path / "l.json")
    assert LastingResult.read(tmp_path / "l.json") == result
    assert json.loads((tmp_path / "l.json").read_text())["command"] == "study-lasting"
    section = result.section("l")
    assert len(section.rows) == 2
    assert "each doubling changes that by" in section.notes[0]
    assert len(section.plots[0][1]) > 5_000
    again = replace(study, home=tmp_path / "elsewhere", before=tmp_path / "l.json")
    assert not again.left()


def gap(tokens: int, percent: list[float]) -> Gap:
    mean = sum(percent) / len(percent)
    return Gap("a", "nano", tokens, list(range(len(percent))), percent, mean, None)


def test_a_trend_says_whether_the_gap_goes_to_zero():
    shrinking = trend([gap(6, [8.0]), gap(12, [4.0])])
    assert (shrinking.doubling, shrinking.gone) == (-4.0, 24.0)
    assert "zero" not in shrinking.sentence(), "two points say little"
    growing = trend([gap(6, [4.0]), gap(12, [6.0]), gap(24, [7.0])])
    assert growing.gone is growing.kept is None
    assert "does not go to zero" in growing.sentence()
    behind = trend([gap(6, [-8.0]), gap(12, [-4.0])])
    assert behind.gone == 24.0
    assert "behind MDLM" in behind.sentence()
    three = trend([gap(6, [8.0, 7.0, 9.0]), gap(12, [4.0, 4.0, 4.0]), gap(24, [0.0, 1.0, -1.0])])
    assert three.ci95[0] < three.doubling < three.ci95[1]
    assert three.kept is None  # nothing is left of it
    halved = trend([gap(6, [-8.0]), gap(12, [-4.0]), gap(24, [-2.0])])
    assert halved.kept == pytest.approx(0.5)
    assert "at zero at 0 M tokens, and if each doubling keeps 0.50 of the gap" in halved.sentence()
    level = trend(
        [gap(6, [-1.0, -2.0, -3.0]), gap(12, [-2.0, -1.0, -3.0]), gap(24, [-1.0, -2.0, -2.5])]
    )
    assert level.gone
    assert "neither growing nor shrinking" in level.sentence()
    more = trend([gap(6, [8.0]), gap(12, [4.0, 0.0, 0.0])])
    assert more.doubling == -4.0, "of the seed that both have"
    assert not trends([gap(6, [1.0])])


def test_the_command_peeks_without_running(tmp_path, capsys):
    words = ["study", "lasting", "--peek", "--tokens", "1500000", "--further", "0"]
    words += ["--home", str(tmp_path / "none"), "--out", str(tmp_path / "l.json")]
    assert main(words) == 2
    assert "is done yet" in capsys.readouterr().err
