"""Code outside the tree: by module:name from the command line or Python, never from a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import adlm
from adlm import registry
from adlm.cli import main
from adlm.config import DataConfig
from adlm.data.sources import open_source
from adlm.errors import UserError
from adlm.models import checkpoint

MINE = '''
from dataclasses import dataclass
from pathlib import Path

from adlm.data import files
from adlm.data.dataset import DataSet
from adlm.process.anchors import needs_table
from adlm.process.schedule import LogLinear
from adlm.samplers.base import Policy

Path("imported").touch()  # so that a test sees it


@needs_table
def common(x, valid, config, table):
    return table.tokens[x] >= 10


class Slow(LogLinear):
    """A schedule."""


@dataclass(frozen=True)
class LeftFirst(Policy):
    """Writes from left to right."""

    width: int = 2

    def step(self, canvas, t, s):
        place = canvas.open.cumsum(dim=1)
        canvas.fill(canvas.open & ((place <= self.width) | (s == 0)))


poems = DataSet(
    files={"train": ("poems.jsonl",)}, read=lambda path, split: files.jsonl(path, "verse")
)


def log(record, run):
    with (run / "seen.txt").open("a") as file:
        file.write(f"{sorted(record)}\\n")


def broken_log(record, run):
    raise ConnectionError("no network")
'''
SMALL = ["--data.tokenizer", "byte", "--data.length", "16", "--model.width", "16"]
SMALL += ["--model.heads", "2", "--train.steps", "2", "--train.batch", "4"]
SMALL += ["--train.eval_rows", "4", "--train.log_every", "1"]


@pytest.fixture
def home(tmp_path, monkeypatch, text_file) -> Path:
    """A folder with a module of the user's, of which nothing is imported yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("mine_outside.py").write_text(MINE)
    forget()
    return tmp_path


def forget() -> None:
    """As a new process: nothing imported, nothing allowed."""
    sys.modules.pop("mine_outside", None)
    registry._allowed.clear()
    Path("imported").unlink(missing_ok=True)


def trained(*words: str, recipe: str = "laptop-adlm") -> str:
    given = ["train", recipe, "--data", "corpus.txt", *SMALL, *words, "--out", "run"]
    assert main(given) == 0
    forget()
    return "run"


def test_a_rule_of_ones_own_is_not_imported_by_loading_its_checkpoint(home, capsys):
    run = trained("--anchor.rule", "mine_outside:common")
    assert checkpoint.load(run).counts() is not None
    model = adlm.load(run)
    assert len(model.generate(n=2, steps=2)) == 2
    assert model.nll(["the union"])[0] > 0
    assert "--use mine_outside:common" in model.trace(steps=2).rule
    assert main(["eval", "likelihood", run, "--limit", "4"]) == 0
    assert main(["sample", run, "--steps", "2"]) == 0
    capsys.readouterr()
    for words in (
        ["eval", "anchors", run, "--rows", "4", "--texts", "0"],
        ["train", "--resume", run],
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert (
            "what a file names is never imported: if you trust it, add --use mine_outside" in said
        )
    assert not Path("imported").exists()


def test_what_is_said_to_be_used_is_used(home, capsys):
    run = trained("--anchor.rule", "mine_outside:common")
    use = ["--use", "mine_outside:common"]
    assert main(["eval", "anchors", run, "--rows", "4", "--texts", "0", *use]) == 0
    assert Path("imported").exists()
    forget()
    assert main(["train", "--resume", run, "--train.steps", "3", *use]) == 0
    forget()
    again = ["train", "--resume", run, "--train.steps", "4", "--anchor.rule", *use[1:]]
    assert main(again) == 0
    forget()
    model = adlm.load(run, use="mine_outside:common")
    assert model.trace(steps=2).anchors is not None
    assert Path("imported").exists()


def test_a_schedule_of_ones_own(home, capsys):
    run = trained("--process.schedule", "mine_outside:Slow", recipe="laptop-mdlm")
    assert main(["sample", run, "--steps", "2"]) == 2
    assert "the schedule 'mine_outside:Slow' is code outside adlm" in capsys.readouterr().err
    assert not Path("imported").exists()
    assert main(["sample", run, "--steps", "2", "--use", "mine_outside:Slow"]) == 0


def test_a_sampler_of_ones_own(home, capsys):
    run = trained(recipe="laptop-mdlm")
    own = ["--sampler", "mine_outside:LeftFirst"]
    assert main(["sample", run, "--steps", "8", *own, "--policy.width", "3"]) == 0
    assert "mine_outside:LeftFirst: 16 tokens" in capsys.readouterr().out
    inner = ["--sampler", "blocks", "--policy.size", "8", "--policy.inner", own[1]]
    assert main(["sample", run, "--steps", "8", *inner]) == 0
    assert main(["sample", run, "--steps", "8", *own, "--policy.with", "3"]) == 2
    assert "has no option 'with'; it has width (2)" in capsys.readouterr().err
    forget()
    assert adlm.load(run).generate(sampler=own[1], steps=8)
    with pytest.raises(UserError, match="cannot be imported: No module named 'nowhere'"):
        adlm.load(run).generate(sampler="nowhere:X")
    with pytest.raises(UserError, match="must be a dataclass that is a Policy"):
        adlm.load(run).generate(sampler="mine_outside:Slow")


def test_a_causal_model_has_no_other_sampler(home, capsys):
    run = trained(recipe="laptop-ar")
    assert main(["sample", run, "--sampler", "mine_outside:LeftFirst"]) == 2
    assert (
        "a checkpoint of ar cannot be sampled by 'mine_outside:LeftFirst'"
        in capsys.readouterr().err
    )


def test_a_data_set_of_ones_own(home):
    Path("poems.jsonl").write_text('{"verse": "a rose"}\n')
    config = DataConfig(name="mine_outside:poems", dir=".")
    with pytest.raises(UserError, match="the data set 'mine_outside:poems' is code outside adlm"):
        open_source(config, "train")
    assert not Path("imported").exists()
    adlm.use("mine_outside:poems")
    assert list(open_source(config, "train").documents()) == ["a rose"]


def test_a_name_is_allowed_only_as_the_value_of_an_option_that_takes_one(home, capsys):
    run = trained("--process.schedule", "mine_outside:Slow", recipe="laptop-mdlm")
    assert main(["sample", run, "--trace", "mine_outside:Slow"]) == 2
    assert "is code outside adlm" in capsys.readouterr().err
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train laptop-mdlm --logger nowhere:f", "the logger 'nowhere:f' cannot be imported"),
        ("train laptop-mdlm --logger math:pi", "the logger 'math:pi' must be a function"),
        ("train laptop-mdlm --logger f", "code is named as module:name, found 'f'"),
        ("train laptop-mdlm --process.schedule math:floor", "must be a class with alpha"),
        ("train laptop-mdlm --process.schedule polynomial:x", "a name, or polynomial:POWER"),
        ("train laptop-mdlm --data math:pi", "the data set 'math:pi' must be a DataSet"),
        ("train laptop-mdlm --data os:environ", "must be a DataSet, found a _Environ"),
        ("train laptop-mdlm --objective os:system", "must be an Objective, found system"),
        ("train laptop-mdlm --objective os:environ", "must be an Objective, found a _Environ"),
        ("train laptop-mdlm --process.masking os:getcwd", "must be a function of x, maskable"),
        ("sample run --use xx", "code is named as module:name, found 'xx'"),
    ],
)
def test_a_wrong_name_is_one_sentence(words, says, home, capsys):
    assert main(words.split()) == 2
    said = capsys.readouterr().err.strip()
    assert says in said
    assert "\n" not in said
    assert not Path("runs").exists()


def test_a_logger_gets_every_record_and_is_not_stored(home, capsys):
    run = trained("--logger", "mine_outside:log", recipe="laptop-mdlm")
    seen = Path(run, "seen.txt").read_text().splitlines()
    records = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
    assert seen == [str(sorted(r)) for r in records]
    assert "logger" not in Path(run, "config.json").read_text()
    assert main(["train", "--resume", run, "--train.steps", "3"]) == 0
    assert len(Path(run, "seen.txt").read_text().splitlines()) == len(seen)
    assert not Path("imported").exists()


def test_a_logger_that_fails_does_not_stop_the_run(home, capsys):
    trained("--logger", "mine_outside:broken_log", recipe="laptop-mdlm")
    said = capsys.readouterr().err
    assert said.count("a logger raised ConnectionError: no network; the run goes on without") == 1
    assert "done: run/checkpoints/step-00000002" in said
