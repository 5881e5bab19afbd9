"""A short form of the campaign in `attack/`, and what the campaign itself promises."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from attack import inputs, kills, place, readers, spoil
from attack.campaign import AttackResult, Campaign, Outcome
from attack.mutation.mutants import ROOT, draw
from attack.mutation.result import MutationResult, Verdict
from attack.scenes import scenes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the campaign forks")
FEW = ("corpus.txt", "run-mdlm", "study", "study.json", "prompts.jsonl")


@pytest.fixture
def home(tmp_path, tmp_path_factory, monkeypatch) -> Path:
    """The place of valid files is that of the tests: made once, not kept."""
    shared = tmp_path_factory.getbasetemp() / "attack"
    for function in (place.make, place.copy):
        defaults = tuple(shared if d == place.HOME else d for d in function.__defaults__)
        monkeypatch.setattr(function, "__defaults__", defaults)
    return tmp_path


def test_bad_input_is_one_sentence_and_nothing_is_written(home, monkeypatch):
    few = [s for s in scenes() if set(s.needs) <= set(FEW) and s.words[0] in ("sample", "infill")]
    monkeypatch.setattr(inputs, "scenes", lambda: few)
    found = [inputs.case(index, 1, home) for index in range(25)]
    assert [(o.shown, o.wrong) for o in found if o.wrong] == []
    past = [o for o in found if "past the options" in o.group]
    assert len(past) >= len(found) / 2


def test_a_killed_run_ends_in_the_bits_of_an_undisturbed_one(home, monkeypatch):
    importlib.import_module("torch._dynamo")  # once, not in every child
    monkeypatch.setattr(kills, "ROUNDS", 2)
    monkeypatch.setattr(place, "HOME", home / "kept")
    outcome = kills.case(1, 1, home)
    assert outcome.wrong == []
    assert outcome.group == "checkpointing"
    assert outcome.count >= 1


def test_a_spoiled_corpus_is_read_or_refused(home, monkeypatch):
    monkeypatch.setattr(readers, "NEEDS", ("corpus.jsonl",))
    outcome = readers.case(0, 1, home)
    assert outcome.wrong == []
    assert "100 inputs" in outcome.shown


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_costs_nothing(tmp_path):
    words = ["-m", "attack", "faults", "--cases", "70", "--out", str(tmp_path / "attack.json")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def some_fail(failing: set[int]):
    def case(index: int, seed: int, home: Path) -> Outcome:
        wrong = ["it fell"] if index in failing else []
        return Outcome("done", "even" if index % 2 == 0 else "odd", "all", f"case {index}", wrong)

    return case


def test_a_campaign_goes_on_and_tries_again_what_fell(tmp_path, monkeypatch):
    monkeypatch.setattr(place, "HOME", tmp_path)
    out = tmp_path / "attack.json"
    first = Campaign(1, tmp_path, out).run("kind", some_fail({1, 3}), 4, 60)
    assert (first.done, [f.case for f in first.failures]) == (4, [1, 3])
    again = Campaign(1, tmp_path, out).run("kind", some_fail({3, 5}), 8, 60)
    assert (again.done, again.mended, [f.case for f in again.failures]) == (8, 1, [3, 5])
    assert again.groups == {"even": 4, "odd": 4}
    kept = AttackResult.read(out)
    assert kept.kinds["kind"] == again
    (row,) = kept.section("attack").rows
    assert row[0] == "kind"
    assert row[4:] == ["6", "2", "1"]


def test_the_same_seed_spoils_in_the_same_way(tmp_path):
    made = []
    for name in "ab":
        path = tmp_path / f"{name}.json"
        path.write_text('{"width": 16, "list": [1, 2.5, "x"]}')
        how = spoil.json_value(path, Random(7)) or path.read_bytes()
        made.append(how)
    assert made[0] == made[1] != b'{"width": 16, "list": [1, 2.5, "x"]}'


def test_mutants_are_the_seed_s_and_change_the_program():
    drawn = draw(60, 5)
    assert drawn == draw(60, 5)
    assert len(set(drawn)) == 60
    for mutant in drawn:
        source = (ROOT / mutant.file).read_bytes()
        changed = mutant.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_a_survivor_is_shown_with_its_answer():
    killed = Verdict("adlm/process/mask.py", 3, "a", "b", True, "test", 1)
    left = Verdict("adlm/process/mask.py", 9, "c", "d", False, "", 1, "it is the same")
    result = MutationResult(seed=1, drawn=2, possible=9, verdicts=[killed, left])
    section = result.section("mutation")
    assert section.rows[-1] == ["all", "2", "1", "50%"]
    assert "it is the same" in section.notes[-1]


def test_signals_of_a_campaign_are_those_of_a_terminal_and_the_kernel():
    assert set(kills.SIGNALS) == {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
