"""The trainer: it learns, it resumes to the same bits, and its commands work."""

import json
from dataclasses import replace

import pytest
import torch

from adlm.cli import main
from adlm.config import AnchorConfig
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.reasoning.evaluate import ReasoningResult
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.score import tally, wilson
from adlm.reasoning.train import load_trained, train
from adlm.reasoning.workload import Reasoning, order
from adlm.train.engine import Engine
from adlm.train.log import read
from adlm.train.signals import StopFlag
from adlm.world import World
from tests.train.test_run import torchrun

TINY = ReasoningSettings(
    items=24, valid=4, epochs=4, stages=2, batch=8, precision="fp32", size="pico"
)
KNOBS = {"least": 2, "most": 2, "limit": 8}


def plan(method: str = "acot", **changes: object) -> Plan:
    return Plan("arithmetic", method, replace(TINY, knobs=KNOBS, **changes))


@pytest.mark.parametrize("method", ["cot", "coconut", "acot"])
def test_a_model_learns_its_items_by_heart(method, tmp_path):
    made = plan(method, items=16, epochs=90, per_stage=10, batch=16)
    assert train(made, tmp_path / "run") == 0
    trained = load_trained(str(tmp_path / "run"))
    assert trained.plan == made
    found = tally(trained.solver.solve(made.items("train", 16).items))
    assert found.accuracy == 1.0
    if method == "cot":
        assert found.sound_traces == 1.0
        assert found.slots == 0
    else:
        assert found.slots == 2
    assert found.anchor_recall == (1.0 if method == "acot" else None)


class StopAt(StopFlag):
    """Is raised once an engine has done so many steps."""

    def __init__(self, engine: Engine, step: int):
        self.engine, self.step = engine, step

    @property
    def raised(self) -> int:  # type: ignore[override]
        return 15 if self.engine.step >= self.step else 0


@pytest.mark.parametrize("method", ["coconut", "acot"])
def test_a_stopped_run_goes_on_to_the_same_bits(method, tmp_path):
    made = plan(method)  # 3 steps an epoch; stages of 1, 1 and 2 epochs
    assert train(made, tmp_path / "whole") == 0
    (tmp_path / "parts").mkdir()
    for step, place in ((2, (0, 2)), (3, (1, 0)), (5, (1, 2)), (10, (2, 4)), (99, (3, 0))):
        engine = Engine(Reasoning(made, "cpu"), tmp_path / "parts", World())
        if found := checkpoint.steps(tmp_path / "parts"):
            engine.resume(found[-1])
        engine.fit(StopAt(engine, step))
        assert engine.workload.place(engine.step) == place
        slots = load_trained(str(tmp_path / "parts")).solver.stage.slots
        assert slots == min(2, (step - 1) // 3)  # those of the last step
    assert engine.finished
    whole, parts = (checkpoint.load(tmp_path / n).weights() for n in ("whole", "parts"))
    assert all(torch.equal(whole[k], parts[k]) for k in whole)
    assert read(tmp_path / "whole" / "metrics.jsonl") == read(tmp_path / "parts" / "metrics.jsonl")


def test_batches_hold_every_row_once_and_depend_on_the_epoch():
    lengths = [len(row) for row in Reasoning(plan("cot"), "cpu").rows(0)]
    first = order(lengths, 5, (0, 0, 0))
    assert sorted(i for b in first for i in b) == list(range(24))
    assert first == order(lengths, 5, (0, 0, 0))
    assert first != order(lengths, 5, (0, 0, 1))


def test_a2r_trains_with_the_anchor_loss_and_reasons(tmp_path):
    made = plan("acot", objective="a2r", epochs=9)  # 27 steps
    assert train(made, tmp_path / "run") == 0
    trained = load_trained(str(tmp_path / "run"))
    assert trained.checkpoint.config.objective == "a2r"
    (logged,) = (r for r in read(tmp_path / "run" / "metrics.jsonl") if "loss" in r)
    assert logged["anchor_loss"] > 0
    assert len(trained.solver.solve(plan().items("test", 3).items)) == 3


def test_an_a2r_base_brings_its_anchor_rule(tmp_path):
    from adlm.train.run import train as pretrain
    from tests.conftest import make_config, small_corpus

    config = make_config(small_corpus(tmp_path), "a2r", steps=1)
    network, anchor = replace(config.model, anchor_blocks=1), AnchorConfig(rule="tfidf", share=0.2)
    pretrain(replace(config, model=network, anchor=anchor), tmp_path / "base")
    made = plan("acot", base=str(tmp_path / "base"), add_tokens=True, epochs=3)
    assert train(made, tmp_path / "run") == 0
    saved = checkpoint.load(tmp_path / "run")
    assert saved.counts().total == 24  # the items, not the base's rows
    workload = Reasoning(made, "cpu")
    (piece,) = workload.portion(0, World()).pieces
    assert 0 < workload.loss(piece, True).anchor < workload.loss(piece, False).bound


def test_torchrun_trains_as_one_process_does(tmp_path):
    """Also where a batch of one row leaves nothing to the second process."""
    for processes in (1, 2):
        torchrun(processes, "-m", "tests.reasoning.steps", str(tmp_path / str(processes)))
    one, two = (read(tmp_path / n / "metrics.jsonl") for n in ("1", "2"))
    assert sum("loss" in r for r in one) == 12
    assert all(r["anchor_loss"] > 0 for r in one if r.get("loss") and r["step"] > 1)
    for left, right in zip(one, two, strict=True):
        assert left == pytest.approx(right, rel=1e-5)


def test_a_base_without_the_special_tokens_is_refused_or_widened(tmp_path):
    from adlm.train.run import train as pretrain
    from tests.conftest import make_config, small_corpus

    base = tmp_path / "base"
    pretrain(make_config(small_corpus(tmp_path), "ar", steps=2), base)
    made = plan("acot", base=str(base), epochs=3, items=8)
    with pytest.raises(UserError, match=r"vocabulary lacks the special token \[BOA\]"):
        Reasoning(made, "cpu")
    wide = Reasoning(plan("acot", base=str(base), epochs=3, items=8, add_tokens=True), "cpu")
    old = checkpoint.load(base).weights()["embed.weight"]
    assert torch.equal(wide.model.embed.weight[: len(old)], old)
    pretrain(make_config(small_corpus(tmp_path), "mdlm", steps=2), tmp_path / "diffusion")
    with pytest.raises(UserError, match="is not causal"):
        Reasoning(plan("acot", base=str(tmp_path / "diffusion")), "cpu")


def test_too_long_questions_count_as_wrong_and_are_counted(tmp_path):
    assert train(plan("cot", epochs=1), tmp_path / "run") == 0
    solver = load_trained(str(tmp_path / "run")).solver
    long = replace(plan().items("test", 1).items[0], question="Ann has 3 pens. " * 60)
    found = tally(solver.solve([long, *plan().items("test", 2).items]))
    assert (found.items, found.too_long) == (3, 1)


def test_wilson_covers_the_truth_nineteen_times_of_twenty():
    random = torch.Generator().manual_seed(0)
    draws = torch.binomial(torch.full((4000,), 50.0), torch.full((4000,), 0.9), generator=random)
    held = [low <= 0.9 <= high for low, high in (wilson(int(k), 50) for k in draws)]
    assert 0.93 < sum(held) / len(held) < 0.98


SMALL = ["--items", "12", "--valid", "2", "--epochs", "3", "--stages", "1", "--batch", "6"]
SMALL += ["--precision", "fp32", "--size", "pico", "--knobs", json.dumps(KNOBS)]


def test_train_eval_and_show_as_commands(tmp_path, capsys):
    run, page = tmp_path / "run", str(tmp_path / "r.html")
    assert main(["reason", "train", "arithmetic", "acot", *SMALL, "--out", str(run)]) == 0
    said = capsys.readouterr().err
    assert "stage 0: 1 epochs, 0 slots, 0 steps removed; 2 steps" in said
    assert "stage 1: 2 epochs, 1 slots" in said
    assert main(["reason", "train", "arithmetic", "acot", *SMALL, "--out", str(run)]) == 2
    assert "holds a run already" in capsys.readouterr().err
    words = ["reason", "train", "arithmetic", "acot", *SMALL, "--out", str(run), "--resume"]
    assert main(words) == 0
    assert main([*words, "--seed", "3"]) == 2
    assert "other settings (settings.seed)" in capsys.readouterr().err
    assert main(["reason", "eval", str(run), "arithmetic", "--limit", "5"]) == 0
    said = capsys.readouterr().out
    assert "of 5 right (95 % interval" in said
    assert "anchors predicted" in said
    stored = (run / "eval" / "reason-arithmetic-test.json").read_text()
    result = json.loads(stored)
    again = ReasoningResult.from_json(result)
    assert again.to_json() == result
    assert again.plan.method == "acot"
    assert again.section("").title == "Reasoning: acot on arithmetic (test)"
    assert result["items"] == 5
    assert result["plan"]["settings"]["knobs"] == KNOBS
    assert {"data_hash", "checkpoint_hash", "machine", "interval"} <= set(result)
    assert main(["report", str(run / "eval" / "reason-arithmetic-test.json"), "--out", page]) == 0
    assert "Reasoning: acot on arithmetic (test)" in (tmp_path / "r.md").read_text()
    capsys.readouterr()
    assert main(["reason", "show", str(run), "arithmetic", "--n", "2"]) == 0
    assert capsys.readouterr().out.count("question") == 2


def test_bytes_are_tokens_too_and_surplus_anchors_are_said(tmp_path, capsys):
    run = str(tmp_path / "run")
    words = [*SMALL, "--tokenizer", "byte", "--out", run]
    assert main(["reason", "train", "arithmetic", "acot", *words]) == 0
    assert "items have more anchors than slots: the first 1 count" in capsys.readouterr().err
    assert main(["reason", "eval", run, "arithmetic", "--limit", "3"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "arithmetic", "acott"], "there is no method 'acott'; did you mean 'acot'?"),
        (["train", "prosqua", "cot"], "there is no task 'prosqua'; did you mean 'prosqa'?"),
        (["train", "gsm8k", "cot"], "the task gsm8k has no generator"),
        (
            ["train", "prosqa", "cot", "--data", "files", "--data_dir", "/nowhere"],
            "the data folder /nowhere",
        ),
        (["train", "prosqa", "cot", "--data", "/nowhere"], "generated, files or a folder"),
        (["train", "prosqa", "cot", "--tokenizer", "wrds"], "tokenizer must be words"),
        (["train", "prosqa", "acot", "--epochs", "3"], "leave none of 3 epochs"),
        (["train", "prosqa", "cot", "--base", "/nowhere"], "no checkpoint or run /nowhere"),
        (["eval", "/nowhere", "prosqa"], "no checkpoint or run /nowhere"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reason", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_of_another_kind_is_refused(tmp_path, capsys):
    from adlm.train.run import train as pretrain
    from tests.conftest import make_config, small_corpus

    pretrain(make_config(small_corpus(tmp_path), "ar", steps=2), tmp_path / "base")
    assert main(["reason", "eval", str(tmp_path / "base"), "prosqa"]) == 2
    assert "was not trained by `adlm reason train`" in capsys.readouterr().err


def test_a_study_is_resumable_and_writes_table_and_plot(tmp_path, capsys):
    words = ["study", "reasoning", "arithmetic", "--methods", "[cot, acot+feedback]", *SMALL]
    words += ["--seeds", "1", "--tests", "4", "--home", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "study.json")]
    assert main([*words, "--peek"]) == 2
    assert "no run of the study" in capsys.readouterr().err
    assert main(words) == 0
    first = capsys.readouterr()
    assert "2 runs to do, 0 done" in first.err
    assert "minutes; stop at any time" in first.err
    result = json.loads((tmp_path / "study.json").read_text())
    assert [r["method"] for r in result["rows"]] == ["cot", "acot+feedback"]
    assert result["rows"][1]["plan"]["settings"]["options"] == {"feedback": True}
    assert result["rows"][0]["data_hash"] == result["rows"][1]["data_hash"]
    assert (tmp_path / "study.png").stat().st_size > 5000
    assert "| cot |" in (tmp_path / "study.md").read_text()
    assert main(words) == 0
    assert "0 runs to do, 2 done" in capsys.readouterr().err
