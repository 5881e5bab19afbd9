"""No figure of the results' texts is typed: each comes from the file that it speaks of."""

from __future__ import annotations

import doctest
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from adlm.studies.result import StudyResult

RESULTS = Path(__file__).parents[2] / "results"
SPEC = importlib.util.spec_from_file_location("texts", RESULTS.parent / "docs" / "texts.py")
assert SPEC
assert SPEC.loader
texts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(texts)
TEMPLATES = sorted(path.stem for path in RESULTS.glob("*.txt"))


def test_there_are_texts_and_the_examples_of_the_module_are_right():
    assert TEMPLATES
    assert doctest.testmod(texts).failed == 0


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_figure_is_typed(name):
    assert texts.typed((RESULTS / f"{name}.txt").read_text()) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_text_is_filled_and_stays_within_its_width(name):
    filled = texts.read(name)
    assert "{" not in filled
    assert max(map(len, filled.splitlines())) <= texts.WIDTH


def test_a_text_follows_its_file():
    result = StudyResult.read(RESULTS / "study-ablate.json")
    template = (RESULTS / "study-ablate.txt").read_text()
    before = texts.fill(template, texts.Facts(result))
    (row,) = (r for r in result.rows if r.row == "rule corpus")
    rows = [replace(r, test_ppl_mean=12.345) if r is row else r for r in result.rows]
    after = texts.fill(template, texts.Facts(replace(result, rows=rows)))
    assert row.figure.removeprefix("≤ ") in before
    assert row.figure.removeprefix("≤ ") not in after
    assert "12.35" in after or "12.34" in after


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ('{mean("MDLN"):.2f}', "there is no row 'MDLN'"),
        ('{value("nothing")}', "nothing"),
        ('{open("x")}', "not defined"),
        ("{1 +}", "SyntaxError"),
    ],
)
def test_what_a_file_does_not_have_is_an_error(asked, says):
    facts = texts.Facts(StudyResult.read(RESULTS / "study-anchoring.json"))
    with pytest.raises(ValueError, match=says):
        texts.fill(f"It has {asked}.", facts)


def test_numbers_that_are_no_figures_may_be_typed():
    assert (
        texts.typed("seed 0, seeds 3, 95 % interval, Theorem 4.1, `tau 5`, A2R, GPT-2, BD3-LM")
        == []
    )
    assert texts.typed("```sh\nadlm --tokens 12000000\n```") == []
    assert texts.typed("93 % of 3,000 rows, -2.5 to +1, 6 M") == ["93", "3,000", "2.5", "1", "6"]
