"""What generation costs: the grid, the counts, and one real run of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from adlm.cli import main
from adlm.config import to_dict
from adlm.eval import efficiency
from adlm.eval.efficiency import EfficiencySettings
from adlm.eval.efficiency_result import EfficiencyResult
from adlm.eval.generation_cost import CaseCost, EfficiencyCase, flops, in_process
from adlm.models.cost import flops_per_token
from adlm.recipes import recipe
from adlm.train.run import train
from tests.conftest import make_config, small_corpus


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("cost")
    text = small_corpus(home)
    for objective in ("ar", "mdlm"):
        train(make_config(text, objective, steps=2), home / objective)
    return home


def test_the_grid_gives_causal_models_one_setting_of_steps():
    settings = EfficiencySettings(steps=[4, 8], batches=[1, 2], texts=2, device="cpu")
    grid = settings.cases(["a", "b"], [recipe("laptop-ar"), recipe("laptop-mdlm")])
    assert [(c.checkpoint, c.steps, c.batch) for c in grid] == [
        ("a", None, 1),
        ("a", None, 2),
        ("b", 4, 1),
        ("b", 8, 1),
        ("b", 4, 2),
        ("b", 8, 2),
    ]
    assert {c.length for c in grid} == {64}


def test_caches_thresholds_and_resting_anchors_are_dimensions_where_a_model_has_them():
    ways = {"caches": ["none", "dual"], "thresholds": [0.0, 0.9], "anchor_everys": [1, 4]}
    settings = EfficiencySettings(
        sampler="confidence", steps=[4], batches=[1], texts=2, device="cpu", **ways
    )
    counts = [
        len(settings.cases(["a"], [recipe(name)]))
        for name in ("laptop-ar", "laptop-mdlm", "laptop-bd3lm", "laptop-adlm")
    ]
    assert counts == [1, 4, 2, 8]
    plain = EfficiencySettings(steps=[4], batches=[1], texts=2, caches=["none", "dual"])
    assert [c.exact for c in plain.cases(["a"], [recipe("laptop-mdlm")])] == [True, False]


def test_several_samplers_are_a_dimension_and_only_the_sure_ones_have_thresholds():
    settings = EfficiencySettings(
        samplers=["ancestral", "confidence", "anchor-first"],
        thresholds=[0.0, 0.9],
        steps=[4],
        batches=[1],
        texts=2,
    )
    found = [settings.cases(["a"], [recipe(f"laptop-{m}")]) for m in ("ar", "mdlm", "adlm")]
    assert [len(cases) for cases in found] == [1, 3, 5]
    assert [(c.sampler, c.threshold) for c in found[1]] == [
        ("ancestral", 0.0),
        ("confidence", 0.0),
        ("confidence", 0.9),
    ]


def test_flops_of_a_text():
    ar, mdlm = recipe("laptop-ar"), recipe("laptop-mdlm")
    head = 2 * 128 * 2048 * 64
    half = replace(ar, data=replace(ar.data, length=32))
    assert flops(ar, 2048, 64, 64, 0, 64) == 64 * flops_per_token(half, 2048, 0.0) + head
    assert flops(mdlm, 2048, 64, 640, 0, 64) == 640 * flops_per_token(mdlm, 2048, 0.0) + head


def test_a_cache_is_measured(runs, tmp_path, capsys):
    out = tmp_path / "cost.json"
    words = ["eval", "efficiency", str(runs / "mdlm"), "--steps", "[16]", "--batches", "[2]"]
    words += ["--sampler", "confidence", "--caches", "[none, delayed]", "--texts", "2"]
    assert main([*words, "--judge", "none", "--out", str(out)]) == 0
    plain, kept = json.loads(out.read_text())["cases"]
    assert (plain["positions"], plain["nfe"], kept["cache"]) == (16 * 16, 16, "delayed")
    assert kept["positions"] < plain["positions"]
    assert kept["gflops_per_text"] < plain["gflops_per_text"]
    assert "mdlm, confidence, cache delayed" in capsys.readouterr().out


def test_the_whole_command(runs, tmp_path, capsys):
    out = tmp_path / "cost.json"
    words = ["eval", "efficiency", str(runs / "ar"), str(runs / "mdlm"), "--steps", "[2, 4]"]
    words += ["--batches", "[2]", "--texts", "2", "--judge", "none", "--out", str(out)]
    assert main(words) == 0
    found = json.loads(out.read_text())["cases"]
    assert [(c["objective"], c["steps"]) for c in found] == [("ar", None), ("mdlm", 2), ("mdlm", 4)]
    assert found[0]["nfe"] == 16
    assert 1 <= found[1]["nfe"] <= 2
    assert all(c["peak_memory_mib"] > 50 for c in found)
    assert "| ar, causal |  | 16 x 2 |" in capsys.readouterr().out


def test_stopped_half_way_the_same_command_goes_on(runs, tmp_path, monkeypatch, capsys):
    out = tmp_path / "cost.json"
    words = ["eval", "efficiency", str(runs / "ar"), str(runs / "mdlm"), "--steps", "[2, 4]"]
    words += ["--batches", "[2]", "--texts", "2", "--judge", "none", "--out", str(out)]
    measured = []

    def stop_at_the_third(case):
        measured.append(case.steps)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return in_process(case)

    monkeypatch.setattr(efficiency, "in_process", stop_at_the_third)
    assert main(words) == 130
    first = json.loads(out.read_text())["cases"]
    assert main(words) == 0
    assert measured == [None, 2, 4, 4]  # the third once more, and nothing else
    whole = json.loads(out.read_text())["cases"]
    assert whole[:2] == first
    assert main([*words, "--steps", "[3, 4]"]) == 0  # the new case comes before a known one
    assert measured == [None, 2, 4, 4, 3]
    assert json.loads(out.read_text())["cases"][2] == whole[2]
    assert "3 of 3: mdlm" in capsys.readouterr().err


def test_seeds_of_a_model_are_one_line_and_have_an_interval():
    configs, found = {}, []
    for seed in range(3):
        for name in ("mdlm", "adlm"):
            config = recipe(f"laptop-{name}")
            run = f"runs/{name}-seed{seed}"
            configs[run] = to_dict(replace(config, train=replace(config.train, seed=seed)))
            case = EfficiencyCase(run, "ancestral", 8, 64, 2, 2, 1.0, 0, "cpu", "fp32")
            costs = {"seconds_per_text": 1.0, "tokens_per_s": 64.0, "nfe": 8.0}
            costs |= {"gflops_per_text": 1.0, "peak_memory_mib": None, "mauve": 0.1 * (seed + 1)}
            found.append(CaseCost(**asdict(case), objective=name, **costs))
    result = EfficiencyResult(checkpoints=dict.fromkeys(configs, ""), configs=configs, cases=found)
    assert [line.label for line in result.lines("mauve")] == ["mdlm, 3 seeds", "adlm, 3 seeds"]
    half = 4.302653 * 0.1 / 3**0.5  # t of two degrees of freedom
    said = f"MAUVE 0.2 ({0.2 - half:.3g} to {0.2 + half:.3g})."
    assert [note.endswith(said) for note in result.over_seeds()] == [True, True]


def test_a_stop_loses_no_case_that_the_file_had(runs, tmp_path, monkeypatch):
    out = tmp_path / "cost.json"
    words = ["eval", "efficiency", str(runs / "mdlm"), "--batches", "[2]", "--texts", "2"]
    words += ["--judge", "none", "--out", str(out), "--steps"]
    assert main([*words, "[4]"]) == 0

    def stop_at_the_third(case):
        if case.steps == 3:
            raise KeyboardInterrupt
        return in_process(case)

    monkeypatch.setattr(efficiency, "in_process", stop_at_the_third)
    assert main([*words, "[2, 3, 4]"]) == 130
    assert [case["steps"] for case in json.loads(out.read_text())["cases"]] == [2, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoints": {"run": "other weights"}},
        {"commit": "other code"},
        {"machine": {"cpu": "another"}},
        {"judge": "another"},
    ],
)
def test_what_was_measured_elsewhere_is_measured_again(change):
    case = EfficiencyCase("run", None, None, 16, 2, 2, 1.0, 0, "cpu", "fp32")
    costs = {"seconds_per_text": 1.0, "tokens_per_s": 16.0, "nfe": 16.0, "gflops_per_text": 1.0}
    found = CaseCost(
        **asdict(replace(case, sampler="causal")), objective="ar", peak_memory_mib=None, **costs
    )
    now = EfficiencyResult(checkpoints={"run": "weights"})
    earlier = replace(now, cases=[found])
    assert earlier.known(case, now) == found
    assert earlier.known(replace(case, seed=1), now) is None
    assert earlier.known(case, replace(now, **change)) is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("{home}/ar --steps [0]", "--steps must be a list of numbers from 1 on"),
        ("{home}/nothing", "nothing"),
        ("{home}/mdlm --lengths [99] --judge none", "and only 16 fit"),
        ("{home}/mdlm --texts 1", "--texts must be at least 2"),
    ],
)
def test_bad_input_is_one_sentence(runs, words, says, capsys):
    assert main(["eval", "efficiency", *words.format(home=runs).split()]) == 2
    assert says in capsys.readouterr().err
