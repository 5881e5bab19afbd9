"""The trainer: it learns, it resumes to the same bits, and its commands work."""

import json
from dataclasses import replace

import pytest
import torch

from adlm.cli import main
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.reasoning.plan import Plan, Settings
from adlm.reasoning.score import summary, wilson
from adlm.reasoning.train import Trainer, load_solver, order, train
from adlm.train.signals import StopFlag

TINY = Settings(items=24, valid=4, epochs=4, stages=2, batch=8, precision="fp32", size="pico")
KNOBS = {"least": 2, "most": 2, "limit": 8}


def plan(method: str = "acot", **changes: object) -> Plan:
    return Plan("arithmetic", method, replace(TINY, knobs=KNOBS, **changes))


@pytest.mark.parametrize("method", ["cot", "coconut", "acot"])
def test_a_model_learns_its_items_by_heart(method, tmp_path):
    made = plan(method, items=16, epochs=90, per_stage=10, batch=16)
    assert train(made, tmp_path / "run") == 0
    solver, stored, _ = load_solver(str(tmp_path / "run"))
    assert stored == made
    outcomes = solver.solve(made.items("train", 16).items)
    found = summary(outcomes)
    assert found["accuracy"] == 1.0
    if method == "cot":
        assert found["sound_traces"] == 1.0
        assert found["slots"] == 0
    else:
        assert found["slots"] == 2
    assert found["anchor_recall"] == (1.0 if method == "acot" else None)


class StopAt(StopFlag):
    """Is raised once a trainer has done so many steps."""

    def __init__(self, trainer: Trainer, step: int):
        self.trainer, self.step = trainer, step

    @property
    def raised(self) -> int:  # type: ignore[override]
        return 15 if self.trainer.step >= self.step else 0


@pytest.mark.parametrize("method", ["coconut", "acot"])
def test_a_stopped_run_goes_on_to_the_same_bits(method, tmp_path):
    made = plan(method)  # 3 steps an epoch; stages of 1, 1 and 2 epochs
    assert train(made, tmp_path / "whole") == 0
    (tmp_path / "parts").mkdir()
    for step, place in ((2, (0, 2)), (5, (1, 2)), (10, (2, 4)), (99, (3, 0))):
        trainer = Trainer(made, tmp_path / "parts")
        if found := checkpoint.steps(tmp_path / "parts"):
            trainer.resume(found[-1])
        trainer.fit(StopAt(trainer, step))
        assert (trainer.at, trainer.within) == place
    assert trainer.finished
    whole, parts = (checkpoint.load(tmp_path / n).weights() for n in ("whole", "parts"))
    assert all(torch.equal(whole[k], parts[k]) for k in whole)


def test_batches_hold_every_row_once_and_depend_on_the_epoch():
    rows = Trainer(plan("cot"), None).rows(plan("cot").stages()[0])  # type: ignore[arg-type]
    first = order(rows, 5, (0, 0, 0))
    assert sorted(i for b in first for i in b) == list(range(24))
    assert first == order(rows, 5, (0, 0, 0))
    assert first != order(rows, 5, (0, 0, 1))


def test_an_a2r_trunk_reasons_too(tmp_path):
    assert train(plan("acot", objective="a2r", epochs=3), tmp_path / "run") == 0
    solver, _, state = load_solver(str(tmp_path / "run"))
    assert state["checkpoint"].config.objective == "a2r"
    assert len(solver.solve(plan().items("test", 3).items)) == 3


def test_a_base_without_the_special_tokens_is_refused_or_widened(tmp_path):
    from adlm.train.run import train as pretrain
    from tests.conftest import make_config, small_corpus

    base = tmp_path / "base"
    pretrain(make_config(small_corpus(tmp_path), "ar", steps=2), base)
    made = plan("acot", base=str(base), epochs=3, items=8)
    with pytest.raises(UserError, match=r"vocabulary lacks the special token \[BOA\]"):
        Trainer(made, tmp_path / "run")
    wide = Trainer(plan("acot", base=str(base), epochs=3, items=8, add_tokens=True), tmp_path)
    old = checkpoint.load(base).weights()["embed.weight"]
    assert torch.equal(wide.model.embed.weight[: len(old)], old)
    pretrain(make_config(small_corpus(tmp_path), "mdlm", steps=2), tmp_path / "diffusion")
    with pytest.raises(UserError, match="is not causal"):
        Trainer(plan("acot", base=str(tmp_path / "diffusion")), tmp_path)


def test_too_long_questions_count_as_wrong_and_are_counted(tmp_path):
    assert train(plan("cot", epochs=1), tmp_path / "run") == 0
    solver, _, _ = load_solver(str(tmp_path / "run"))
    long = replace(plan().items("test", 1).items[0], question="Ann has 3 pens. " * 60)
    found = summary(solver.solve([long, *plan().items("test", 2).items]))
    assert (found["items"], found["too_long"]) == (3, 1)


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
    result = json.loads((run / "eval" / "reason-arithmetic-test.json").read_text())
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
