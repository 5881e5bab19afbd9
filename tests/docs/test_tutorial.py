"""The tutorial is executed from its first line to its last, made small."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from adlm import registry
from adlm.cli import main
from tests.conftest import small_corpus

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
# what costs minutes made small; the page's own words come first, so that these win
SMALL = {
    "adlm anchors": "--data.tokenizer bpe:270 --rows 2",
    "adlm train": "--data.tokenizer bpe:270 --train.steps 3 --train.batch 4 --train.eval_rows 4 "
    "--model.width 16 --model.heads 2 --train.precision fp32 --data.length 32",
    "adlm eval likelihood": "--limit 4 --draws 1",
    "adlm eval anchors": "--rows 2 --draws 1 --texts 0",
}
STEP = re.compile(r"^    (adlm [^\n]*)$|^```python\n(.*?)^```$", re.M | re.S)


def steps() -> list[tuple[str, str]]:
    """(command, '') or ('', Python) in the order of the page."""
    return STEP.findall(PAGE)


def small(command: str) -> list[str]:
    for begin, words in SMALL.items():
        if command.startswith(begin + " "):
            command += f" {words}"
    return shlex.split(command)[1:]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """(the folder, the names that Python has at the end, what each piece of Python printed)."""
    home = tmp_path_factory.mktemp("tutorial")
    (home / "my-texts").mkdir()
    small_corpus(home / "my-texts")
    names: dict = {"__name__": "tutorial"}
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        patch.setitem(names, "print", lambda *words: printed.append(" ".join(map(str, words))))
        for command, python in steps():
            if command:
                assert main(small(command)) == 0, command
            else:
                exec(compile(python, "tutorial", "exec", dont_inherit=True), names)
    yield home, names, printed
    registry._tables["sampler"].pop("comb", None)


def test_every_step_is_walked(walked):
    home, _, printed = walked
    assert {p.name for p in (home / "runs").iterdir()} == {"plain", "anchored", "no-anchor-loss"}
    for page in ("replay.html", "comb.html"):
        assert "<html" in (home / page).read_text(encoding="utf-8")
    assert (home / "runs" / "anchored" / "eval" / "anchors.json").is_file()
    assert printed[0].startswith("['The")
    assert [p.split()[0] for p in printed if p.startswith(("comb", "ancestral"))] == [
        "comb",
        "ancestral",
    ]


def test_the_comb_never_writes_neighbours_together_and_takes_eight_passes(walked):
    _, names, printed = walked
    trace = names["trace"]
    assert trace.steps == 8
    assert "8.0 network passes" in printed[-1]
    for event in trace.events[0]:
        assert event.position % 8 == event.step - 1
    assert sorted(e.position for e in trace.events[0]) == list(range(len(trace.template)))


def test_the_comb_fills_holes_and_leaves_the_rest(walked):
    _, names, _ = walked
    text = names["model"].infill("a [MASK:3] b", sampler="comb", policy={"gap": 2}, seed=1)[0]
    assert text.startswith("a")
    assert text.endswith("b")


def test_the_names_that_the_tutorial_explains_exist(walked):
    from adlm.samplers.base import Canvas

    for name in re.findall(r"^\| `canvas\.(\w+)", PAGE, re.M):
        assert hasattr(Canvas, name) or name in Canvas.__annotations__, name
