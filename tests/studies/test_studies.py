"""Studies: resumable run by run, honest tables, matched controls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from adlm.cli import main
from adlm.commands.study import AXES
from adlm.config import to_dict
from adlm.errors import UserError
from adlm.locks import hold
from adlm.models.cost import flops_per_token, parameters, training_flops
from adlm.models.size import match
from adlm.recipes import recipe
from adlm.recipes.anchoring import anchored
from adlm.studies import ablate, anchoring, pool
from adlm.studies.pool import Job
from adlm.studies.runner import Study, differences, run, save, table
from tests.conftest import make_config


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


def test_a_study_runs_and_is_not_done_twice(text_file, tmp_path, capsys):
    config = make_config(text_file, steps=4, eval_every=2)
    anchor = replace(config, objective="adlm", model=replace(config.model, anchor_blocks=1))
    study = Study("small", {"MDLM": config, "ADLM": anchor}, {"MDLM": 1, "ADLM": 2}, tmp_path / "s")
    result = run(study, workers=2)
    save(study, result, tmp_path / "small.json")
    assert [len(r["seeds"]) for r in result["rows"]] == [1, 2]
    assert result["rows"][1]["test_ppl_sd"] > 0
    assert len(result["rows"][0]["curve"]["tokens"]) == 2
    assert "| ADLM |" in capsys.readouterr().out
    assert (tmp_path / "small.png").stat().st_size > 5_000
    assert json.loads((tmp_path / "small.json").read_text())["machine"]["torch"]
    written = [c.result.stat().st_mtime_ns for c in study.cells()]
    again = run(study, workers=1)
    assert [c.result.stat().st_mtime_ns for c in study.cells()] == written
    assert table(again) == table(result)
    elsewhere = replace(study, home=tmp_path / "t", before=tmp_path / "small.json")
    assert table(run(elsewhere, workers=1)) == table(result)  # the file has all runs already
    assert not list((tmp_path / "t").glob("*seed*"))
    longer = replace(config, train=replace(config.train, steps=5))
    changed = replace(elsewhere, rows={"MDLM": longer, "ADLM": anchor})
    assert [(c.row, c.seed) for c in changed.left()] == [("MDLM", 0)]
    assert not replace(changed, only=["ADLM"]).left()
    with pytest.raises(UserError, match="no row 'ADML'; did you mean 'ADLM'"):
        replace(changed, only=["ADML"]).left()


def test_rows_are_compared_seed_by_seed():
    rows = [
        {"row": "A", "seeds": [0, 1, 2], "test_ppl": [9.0, 8.0, 7.0]},
        {"row": "B", "seeds": [0, 2, 1], "test_ppl": [10.0, 10.0, 10.0]},
        {"row": "C", "seeds": [1], "test_ppl": [5.0]},
    ]
    first, second = differences(rows, (("A", "B"), ("A", "C"), ("A", "not there")))
    assert first["test_ppl"] == [-1.0, -2.0, -3.0]
    assert first["ci95"] == pytest.approx([-2 - 4.303 / 3**0.5, -2 + 4.303 / 3**0.5])
    assert second == {"row": "A", "against": "C", "test_ppl": [3.0], "ci95": None}


def test_peeking_at_a_study_runs_nothing(tmp_path, capsys):
    words = ["study", "anchoring", "--peek", "--home", str(tmp_path / "none")]
    assert main([*words, "--out", str(tmp_path / "s.json")]) == 2
    assert "is done yet" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_failing_run_says_why(text_file, tmp_path):
    config = to_dict(make_config(text_file.with_name("gone.txt")))
    job = Job("MDLM", tmp_path / "s" / "run", "adlm.studies.worker", [config])
    with pytest.raises(UserError, match=r"^MDLM: .*gone.txt"):
        pool.work([job], workers=1, threads=1)
    broken = replace(job, given=[config, "one too many"])
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
    study = Study("s", {"MDLM": make_config(text_file)}, {"MDLM": 1}, tmp_path)
    with hold(tmp_path), pytest.raises(UserError, match="another process is training in"):
        run(study, workers=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_told_to_stop_starts_no_further_run(text_file, tmp_path, number):
    code = (
        "import json, sys; from pathlib import Path; from adlm.config import from_dict;"
        "from adlm.studies.runner import Study, run; c = from_dict(json.loads(sys.argv[1]));"
        "run(Study('s', {'a': c}, {'a': 3}, Path(sys.argv[2])), 1)"
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
