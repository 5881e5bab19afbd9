"""Studies: resumable run by run, honest tables, matched controls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from adlm.cli import main
from adlm.config import to_dict
from adlm.errors import UserError
from adlm.eval.seeds import interval
from adlm.locks import hold
from adlm.models.cost import flops_per_token, parameters, training_flops
from adlm.models.size import match
from adlm.reasoning.data import generated
from adlm.reasoning.plan import ReasoningSettings
from adlm.reasoning.tasks.base import make_task
from adlm.recipes import recipe
from adlm.recipes.anchoring import anchored
from adlm.studies import ablate, anchoring, baselines, pool, worker
from adlm.studies.ablate import AXES
from adlm.studies.language import LanguageStudy
from adlm.studies.pool import Job
from adlm.studies.reasoning import ReasoningStudy, ReasoningStudyResult, work
from adlm.studies.result import (
    LearningCurve,
    StudyPair,
    StudyResult,
    StudyRow,
    differences,
)
from adlm.studies.runner import StudySettings, write
from tests.conftest import make_config, small_corpus

BEFORE = Path(__file__).parent / "before"  # made by the version before results were types
pytestmark = pytest.mark.usefixtures("one_cache")


@pytest.mark.parametrize("name", ["laptop-adlm", "laptop-a2r"])
@pytest.mark.parametrize("by", ["params", "flops"])
def test_matched_models_match(name, by):
    config, vocab = recipe(name), 2048
    plain = match(config, vocab, by)
    assert plain.objective == {"adlm": "mdlm", "a2r": "ar"}[config.objective]
    assert not plain.model.anchor_blocks
    costs = [
        parameters(c, vocab) if by == "params" else flops_per_token(c, vocab)
        for c in (config, plain)
    ]
    assert abs(costs[0] / costs[1] - 1) < 0.04


def test_only_anchored_models_are_matched():
    with pytest.raises(UserError, match="only an anchored model"):
        match(recipe("laptop-ar"), 100)
    with pytest.raises(UserError, match="params or flops"):
        match(recipe("laptop-adlm"), 100, by="colour")


def test_a_split_that_leaves_no_block_is_one_sentence(text_file):
    config = make_config(text_file)
    assert anchored(replace(config, model=replace(config.model, blocks=3)), "adlm")
    with pytest.raises(UserError, match="leaves no block"):
        anchored(config, "adlm")


def test_the_rows_of_the_anchoring_study():
    rows = anchoring.rows(6_000_000)
    vocab = 2048
    longer = {name: rows[other] for name, other in anchoring.LONGER.items()}
    equal = {name: config for name, config in rows.items() if config not in longer.values()}
    assert set(equal) == set(anchoring.SHOWN)
    assert len({c.train.steps * c.train.batch * c.data.length for c in equal.values()}) == 1
    for name, plain in longer.items():
        spent = [training_flops(c, vocab) * c.train.steps for c in (rows[name], plain)]
        assert spent[0] == pytest.approx(spent[1], rel=1e-3)
        assert replace(plain, train=rows["MDLM"].train) == rows["MDLM"]
    sizes = [parameters(rows[name], vocab) for name in ("ADLM", anchoring.LARGER)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.04)
    assert all(name in rows for pair in anchoring.PAIRS for name in pair)


def test_the_rows_of_the_baselines_study():
    rows = baselines.rows(6_000_000)
    equal = [rows[name] for name in baselines.RECIPES]
    assert len({c.train.steps * c.train.batch * c.data.length for c in equal}) == 1
    for name, (base, other) in baselines.EQUAL_FLOPS.items():
        spent = [training_flops(rows[n], 2048) * rows[n].train.steps for n in (name, other)]
        assert spent[0] == pytest.approx(spent[1], rel=1e-3)
        assert replace(rows[name], train=rows[base].train) == rows[base]
    assert {"ar", "mdlm", "sedd", "d3pm", "udlm", "gidd", "bd3lm"} <= {
        c.objective for c in rows.values()
    }
    shared = ("MDLM", anchoring.LONGER["ADLM"])
    assert all(rows[n] == anchoring.rows(6_000_000)[n] for n in shared)  # runs serve both studies
    assert all(name in rows for pair in baselines.PAIRS for name in pair)
    assert set(baselines.SHOWN) <= set(rows)


def test_only_the_paper_s_system_has_anchors_as_the_only_way():
    for name in ("laptop-adlm", "laptop-a2r"):
        assert not recipe(name).model.residual
    assert recipe("laptop-deep").model.residual


def test_ablation_rows_differ_from_each_other():
    assert set(AXES) == set(ablate.axes())  # the command's default is all of them
    rows = ablate.rows(AXES, 1000)
    configs = list(rows.values())
    assert all(a != b for i, a in enumerate(configs) for b in configs[:i])
    with pytest.raises(UserError, match="did you mean 'gamma'"):
        ablate.rows(["gama"], 1000)
    some = ablate.rows(["bridge=softmax", "gamma"], 1000)
    assert "bridge softmax, residual" in some
    assert not any("hidden" in name for name in some)
    with pytest.raises(UserError, match="the axis bridge has no row with 'soft max'"):
        ablate.rows(["bridge=soft max"], 1000)


def study_of(rows, seeds, home, **more):
    return LanguageStudy(name="small", rows=rows, seeds=seeds, home=home, **more)


def test_a_study_runs_and_is_not_done_twice(text_file, tmp_path, capsys):
    config = make_config(text_file, steps=4, eval_every=2)
    anchor = replace(config, objective="adlm", model=replace(config.model, anchor_blocks=1))
    study = study_of({"MDLM": config, "ADLM": anchor}, {"MDLM": 1, "ADLM": 2}, tmp_path / "s")
    result = study.run(workers=2)
    write(result, tmp_path / "small.json")
    assert [len(r.seeds) for r in result.rows] == [1, 2]
    assert result.rows[1].test_ppl_sd > 0
    assert len(result.rows[0].curve.tokens) == 2
    assert "| ADLM |" in capsys.readouterr().out
    assert (tmp_path / "small.png").stat().st_size > 5_000
    assert json.loads((tmp_path / "small.json").read_text())["machine"]["torch"]
    assert StudyResult.read(tmp_path / "small.json") == result
    written = [c.result.stat().st_mtime_ns for c in study.cells()]
    again = study.run(workers=1)
    assert [c.result.stat().st_mtime_ns for c in study.cells()] == written
    assert again.rows == result.rows
    elsewhere = replace(study, home=tmp_path / "t", before=tmp_path / "small.json")
    assert elsewhere.run(workers=1).rows == result.rows  # the file has all runs already
    assert not list((tmp_path / "t").glob("*seed*"))
    longer = replace(config, train=replace(config.train, steps=5))
    changed = replace(elsewhere, rows={"MDLM": longer, "ADLM": anchor})
    assert [(c.row, c.seed) for c in changed.left()] == [("MDLM", 0)]
    assert not replace(changed, only=["ADLM"]).left()
    with pytest.raises(UserError, match="no row 'ADML'; did you mean 'ADLM'"):
        replace(changed, only=["ADML"]).left()


def test_weights_of_a_run_go_unless_they_are_to_be_kept(text_file, tmp_path):
    config = make_config(text_file, steps=2)
    for keep in (False, True):
        (cell,) = study_of({"MDLM": config}, {"MDLM": 1}, tmp_path / str(keep), keep=keep).left()
        assert worker.work(cell.folder, *cell.given) == 0
        assert cell.result.is_file()
        assert bool(list(cell.folder.glob("checkpoints/step-*"))) == keep


def test_a_study_of_the_version_before_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_corpus(tmp_path)
    config = make_config("corpus.txt", steps=4, eval_every=2)
    old = StudyResult.read(BEFORE / "study.json")
    study = study_of({"MDLM": config}, {"MDLM": 2}, BEFORE / "study")
    assert [(c.row, c.seed) for c in study.left()] == [("MDLM", 1)]
    (row,) = study.gather().rows
    assert row.runs == old.rows[0].runs[:1]  # read from the folder as from the file
    assert (row.parameters, row.training_flops) == (
        old.rows[0].parameters,
        old.rows[0].training_flops,
    )
    assert not replace(study, home=tmp_path / "new", before=BEFORE / "study.json").left()


def test_a_study_of_reasoning_of_the_version_before_goes_on():
    small = {"items": 12, "valid": 2, "epochs": 3, "stages": 1, "batch": 6, "size": "pico"}
    study = ReasoningStudy(
        name="arithmetic",
        home=BEFORE / "reasoning",
        task="arithmetic",
        methods=["cot"],
        settings=ReasoningSettings(precision="fp32", **small),
        seeds=2,
        tests=4,
    )
    assert [(c.row, c.seed) for c in study.left()] == [("cot", 1)]
    old = ReasoningStudyResult.read(BEFORE / "reasoning.json")
    (row,) = study.gather().rows
    assert replace(row, plan={}) == replace(old.rows[0], plan={})


def test_a_study_of_reasoning_goes_on_from_its_file_and_is_examined_by_other_items(tmp_path):
    small = {"items": 12, "valid": 2, "epochs": 3, "stages": 2, "batch": 6, "size": "pico"}
    study = ReasoningStudy(
        name="arithmetic",
        home=tmp_path / "runs",
        task="arithmetic",
        methods=["cot", "acot"],
        settings=ReasoningSettings(precision="fp32", **small),
        seeds=1,
        tests=4,
        exam=str(tmp_path / "items"),
    )
    with pytest.raises(UserError, match="items"):
        study.left()
    made = generated(make_task("arithmetic"), 5, seed=7, split="test").items
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "test.json").write_text(json.dumps([asdict(item) for item in made]))
    for cell in study.left():
        assert work(cell.folder, *cell.given) == 0
    result = study.gather()
    result.save(tmp_path / "study.json")
    cot, acot = result.rows
    assert (cot.items, cot.source) == (4, "test.json")
    assert (len(cot.stages), len(acot.stages)) == (1, 3)
    assert "acot" in " ".join(result.section("study").notes)
    moved = replace(study, home=tmp_path / "elsewhere", before=tmp_path / "study.json")
    assert moved.left() == []
    assert moved.gather().rows == result.rows
    assert len(replace(moved, tests=3).left()) == 2  # of other settings


def test_the_commands_share_one_list_of_settings():
    with pytest.raises(UserError, match="--tokens must be at least 1"):
        StudySettings(tokens=0)
    with pytest.raises(UserError, match="--seeds must be from 1 to 1,000"):
        StudySettings(seeds=0)
    with pytest.raises(UserError, match="--seeds must be from 1 to 1,000"):
        StudySettings(seeds=2**63 - 1)
    study = anchoring.study(StudySettings(tokens=1000, seeds=2, only=["AR"]))
    assert {c.row for c in study.left()} == {"AR"}
    assert len(study.left()) == 2


def row_of(name: str, seeds: list[int], ppl: list[float]) -> StudyRow:
    curve = LearningCurve([], [], [])
    return StudyRow(name, 1, 1, 1.0, seeds, ppl, 1.0, None, 1.0, False, curve, {})


def test_rows_are_compared_seed_by_seed():
    rows = [
        row_of("A", [0, 1, 2], [9.0, 8.0, 7.0]),
        row_of("B", [0, 2, 1], [10.0, 10.0, 10.0]),
        row_of("C", [1], [5.0]),
    ]
    first, second = differences(rows, (("A", "B"), ("A", "C"), ("A", "not there")))
    assert first.test_ppl == [-1.0, -2.0, -3.0]
    half = 4.302652729911275 / 3**0.5  # Student's t at 97.5 %, two degrees of freedom
    assert first.ci95 == pytest.approx((-2 - half, -2 + half))
    assert second == StudyPair("A", "C", [3.0], None)


def test_any_number_of_seeds_from_three_on_has_an_interval():
    assert interval([1.0, 2.0]) is None
    low, high = interval([0.0, 1.0] * 10)  # t(19) = 2.0930
    assert (low + high) / 2 == pytest.approx(0.5)
    assert (high - low) / 2 == pytest.approx(2.0930 * (0.25 * 20 / 19) ** 0.5 / 20**0.5, rel=1e-4)


def test_peeking_at_a_study_runs_nothing(tmp_path, capsys):
    words = ["study", "anchoring", "--peek", "--home", str(tmp_path / "none")]
    assert main([*words, "--out", str(tmp_path / "s.json")]) == 2
    assert "is done yet" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_failing_run_says_why(text_file, tmp_path):
    config = to_dict(make_config(text_file.with_name("gone.txt")))
    job = Job("MDLM", tmp_path / "s" / "run", "adlm.studies.worker", [config, False])
    with pytest.raises(UserError, match=r"^MDLM: .*gone.txt"):
        pool.work([job], workers=1, threads=1)
    broken = replace(job, given=[config, False, "one too many"])
    with pytest.raises(UserError, match=r"stopped with code 1; see .*run\.log"):
        pool.work([broken], workers=1, threads=1)


def test_the_time_left_follows_how_long_runs_took(tmp_path):
    jobs = [Job(str(i), tmp_path / str(i), "m", [], seconds=100.0) for i in range(4)]
    now = 0.0
    course = pool.Course(jobs, workers=2, clock=lambda: now)
    assert course.left() == 200
    course.start(jobs[0])
    course.start(jobs[1])
    now = 150.0  # half as fast again as was thought
    course.end(jobs[0])
    course.end(jobs[1])
    assert course.left() == 150
    course.start(jobs[2])
    now = 290.0
    assert course.left() == 150  # the last one has not begun
    course.start(jobs[3])
    now = 300.0
    course.end(jobs[2])
    assert course.left() == 140
    course.end(jobs[3])
    assert course.left() == 0


def test_two_studies_do_not_share_a_folder(text_file, tmp_path):
    study = study_of({"MDLM": make_config(text_file)}, {"MDLM": 1}, tmp_path)
    with hold(tmp_path), pytest.raises(UserError, match="another process is training in"):
        study.run(workers=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_told_to_stop_starts_no_further_run(text_file, tmp_path, number):
    code = (
        "import json, sys; from pathlib import Path; from adlm.config import from_dict;"
        "from adlm.studies.language import LanguageStudy; c = from_dict(json.loads(sys.argv[1]));"
        "LanguageStudy(name='s', rows={'a': c}, seeds={'a': 3}, home=Path(sys.argv[2])).run(1)"
    )
    config = make_config(text_file, steps=100_000)
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(to_dict(config)), str(tmp_path / "s")],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as a shell's job in CI
    )
    metrics = tmp_path / "s" / "a-seed0" / "metrics.jsonl"
    while not metrics.is_file() or not metrics.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (tmp_path / "s" / "a-seed1").exists()
    assert list((tmp_path / "s" / "a-seed0" / "checkpoints").glob("step-*"))
